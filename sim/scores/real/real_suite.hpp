// A suite of scenarios to run for real and to forecast: validation/real/README.md has the format
// with an example.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/words.hpp"

namespace sim {

enum class RealBackend : std::uint8_t { host, cuda };
constexpr auto words_of(RealBackend) {
  return std::array{Word{RealBackend::host, "host"}, Word{RealBackend::cuda, "cuda"}};
}

struct SuiteScenario {
  std::string name;
  std::string base;                    // scenario file, ready to open
  std::vector<std::string> overrides;  // "section.key=value", those of all scenarios first
};

// SuiteBounds is what a suite allows; unset: anything.
struct SuiteBounds {
  int scored = 0;  // scenarios that must have been measured, at least
  std::optional<double> median_step_error{}, worst_step_error{};
  // How much slower the layout that the forecast puts first may be than the true best, of any
  // model of the suite.
  std::optional<double> favourite_loss{};
  std::optional<double> worst_memory_error{};
  bool same_work = true;  // operators, their order per stream and bytes per collective are equal
};

struct RealSuite {
  std::string name;
  std::string title;
  std::string path;     // of the suite's file
  std::string cluster;  // written by `stepcast calibrate`, ready to open
  RealBackend backend = RealBackend::host;
  int ranks = 1;
  int ranks_per_gpu = 0;  // 0: a GPU each
  int warm_up_steps = 2;
  int measured_steps = 5;  // for the time
  int recorded_steps = 3;  // besides, for the categories: the one in the middle counts
  SuiteBounds bounds;
  std::vector<SuiteScenario> scenarios;
};

// The overrides of a scenario, with the suite's cluster and ranks.
std::vector<std::string> overrides_of(const RealSuite& suite, const SuiteScenario& scenario);

// Throws InputError with every problem of the file.
RealSuite load_real_suite(const std::string& path);
RealSuite parse_real_suite(std::string_view text, const std::string& path);

}  // namespace sim
