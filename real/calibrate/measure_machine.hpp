// Measures this machine through a backend: the figures behind `stepcast calibrate`.
//
// The one call that a command makes (in every process of the run; README.md has the method):
//
//   real::MeasureRequest request{.backend = real::MeasuredBackend::host, .ranks = 2, ...};
//   const real::RunResult result = real::measure_machine(request, [&](const MeasuredMachine& m) {
//     // once, in the process of rank 0: fit, write the files, print
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "real/calibrate/bench.hpp"
#include "real/launch/launch.hpp"
#include "sim/base/words.hpp"
#include "sim/calibration/measurements.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"

namespace real {

enum class MeasuredBackend : std::uint8_t { host, cuda };
constexpr auto words_of(MeasuredBackend) {
  return std::array{sim::Word{MeasuredBackend::host, "host"},
                    sim::Word{MeasuredBackend::cuda, "cuda"}};
}

// A plan whose kernels and collectives are wanted. Both outlive the call.
struct MeasuredPlan {
  const sim::Plan* plan = nullptr;
  const sim::Model* model = nullptr;
  std::string source{};  // the file it comes from, which errors name
};

struct MeasureRequest {
  MeasuredBackend backend = MeasuredBackend::host;
  int ranks = 1;                    // that measure at once, as those of a run do
  int ranks_per_gpu = 0;            // cuda: > 0: several ranks share a GPU
  std::vector<MeasuredPlan> plans;  // of `ranks` ranks, or fewer; empty: the grid alone
  bool grid = true;                 // shapes beside those of the plans, for the formulas
  double seconds = 60;              // about what all of it may take; the share of a part: README.md
  std::uint64_t seed = 1;           // of the data and of the order of kernels
  std::vector<std::string> arguments;  // of this program, for the ranks that are processes
};

// One rank's part of it. Every rank of `transport` calls it; the result of rank 0 is that of all.
// `stop_wanted` (collective, asked between measurements): leave out what is not measured yet.
sim::MeasuredMachine measure_rank(
    const MeasureRequest& request, Bench& bench, Transport& transport,
    const std::function<bool()>& stop_wanted = [] { return false; });

// Throws InputError for a plan that cannot be measured, std::invalid_argument for what else cannot
// be met, as run_ranks() does.
RunResult measure_machine(const MeasureRequest& request,
                          const std::function<void(const sim::MeasuredMachine&)>& done);

}  // namespace real
