// Simulates a row of published measurements.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/base/control.hpp"
#include "sim/base/words.hpp"
#include "sim/plan/plan.hpp"
#include "sim/rows/measured.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/uncertainty/job_traits.hpp"

namespace sim {

// Mechanism is a part that a forecast can be made without, one at a time (ablation.hpp).
enum class Mechanism : std::uint8_t {
  none,
  link_contention,  // every transfer as if alone
  waves,            // tiles over the SMs counted as a fraction
  host_issue,       // kernels start when their stream is free
  device_spread,    // all devices alike, no jitter
  interference,     // communication takes nothing from kernels
  persistent,       // products give way to communication on every device
  measured,         // formulas alone, without curves of clusters and kernels of devices
  framework,        // all kernels fused
};
constexpr auto words_of(Mechanism) {
  return std::array{Word{Mechanism::none, "nothing"},
                    Word{Mechanism::link_contention, "link_contention"},
                    Word{Mechanism::waves, "waves"},
                    Word{Mechanism::host_issue, "host_issue"},
                    Word{Mechanism::device_spread, "device_spread"},
                    Word{Mechanism::interference, "interference"},
                    Word{Mechanism::persistent, "persistent"},
                    Word{Mechanism::measured, "measured"},
                    Word{Mechanism::framework, "framework"}};
}

struct Prediction {
  Duration time{};      // of what the set's `quantity` names
  Bytes peak_memory{};  // of the worst rank, with what the device reserves
  Bytes plan_memory{};  // without it
  // activation_share: the share of the activations at their peak, where the row has such a share.
  double activation_share = 0;
  bool fits = false;
  // For the error of the memory forecast (memory_error_rows.hpp).
  FrameworkName framework = FrameworkName::megatron;
  Schedule schedule = Schedule::one_f_one_b;
  Bytes capacity{};      // of the device
  std::string device{};  // its name, as its file has it
  int gpus = 0;
  std::optional<JobTraits> traits{};  // if they were asked for, of a step
  // memory_excess: what the run needed beyond `peak_memory`, or beyond what `memory` says of the
  // rank that was measured, as a share of it. Nothing: its memory was not measured.
  std::optional<double> memory_excess{};
  std::vector<std::string> memory_kinds{};  // with it (sim/report/memory_kinds.hpp)
  // room() is what the device has beyond `peak_memory`, as a fraction of that; negative: it does
  // not fit.
  double room() const {
    return static_cast<double>(capacity.count()) / static_cast<double>(peak_memory.count()) - 1;
  }
};

struct RowResult {
  MeasuredRow row;
  std::optional<Prediction> prediction;
  std::string skipped;  // why there is no prediction

  bool scored() const { return prediction && row.use == RowUse::score && row.has_time(); }
  bool memory_scored() const { return prediction && row.use == RowUse::score && row.has_memory(); }
  // (predicted - measured) / measured. REQUIRES: a prediction, and a row with a time.
  double error() const;
  // The same of its memory, or of its share of activations. REQUIRES: row.has_memory().
  double memory_error() const;
};

// row_scenario() is what is simulated of a row. Throws NotSimulated or InputError, both runtime
// errors, where it cannot be.
Scenario row_scenario(const MeasuredSet& set, const MeasuredRow& row,
                      Mechanism without = Mechanism::none);
// The first problem of such an error.
std::string reason_in_a_line(const std::runtime_error& error);

struct PredictOptions {
  Mechanism without = Mechanism::none;
  bool traits = false;  // Prediction::traits, which takes a fifth longer
};
// A scenario that cannot be read or simulated is a result too: `skipped` says why. Throws Stopped.
RowResult predict(const MeasuredSet& set, const MeasuredRow& row,
                  const PredictOptions& options = {}, const Control& control = {});
// The same of rows of one scenario (alike_rows.hpp), which is forecast once. REQUIRES: rows.
std::vector<RowResult> predict(const MeasuredSet& set, std::span<const MeasuredRow* const> rows,
                               const PredictOptions& options = {}, const Control& control = {});

// Time that the first recorded rank with layer `layer` spends on it: from the start of the first
// to the end of the last of its forward operators, and the same of recomputation and backward.
// Zero if no recorded rank has it. REQUIRES: one micro-batch.
Duration layer_time(const Plan& plan, const Timeline& timeline, int layer);

}  // namespace sim
