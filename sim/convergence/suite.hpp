// A suite that compares schemes of synchronisation by training with them: README.md has the format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/convergence/scheme.hpp"

namespace sim {

struct ConvergenceSuite {
  std::string name;
  std::string title;
  std::string path;                  // of the suite's file
  std::string base;                  // scenario file, ready to open
  int steps = 0;                     // of every run, a warm-up included
  std::vector<std::uint64_t> seeds;  // of weights and data: every scheme is trained with each
  int smoothing = 0;                 // steps of the moving average, odd
  std::vector<LossTarget> targets;
  std::vector<SyncScheme> schemes;
  std::size_t baseline = 0;  // index into schemes
};

// Both throw InputError with every problem of the file. Whether a scheme's keys are keys of a
// scenario is not looked at here.
ConvergenceSuite load_convergence_suite(const std::string& path);
ConvergenceSuite parse_convergence_suite(std::string_view text, const std::string& path);

}  // namespace sim
