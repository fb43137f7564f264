// How long the steps of a training job took, by its log.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/units.hpp"

namespace sim {

struct TrainingLog {
  std::string writer;          // "Megatron-LM"
  bool token_rate = false;     // values are tokens per second and GPU, else seconds per step
  std::vector<double> values;  // in the order of the log
};

// Reads the lines of one writer: the first that the file has any of. Megatron-LM and
// Megatron-DeepSpeed ("elapsed time per iteration (ms)", megatron/training/training.py),
// torchtitan ("tps", "wps" before it: components/metrics.py), NeMo ("train_step_timing in s"),
// Megatron Bridge ("Step Time"), DeepSpeed's pipeline ("iter time (s)", runtime/pipe/engine.py),
// the Python module's watch ("step_time_s").
// Throws InputError where no line has a time.
TrainingLog read_training_log(const std::string& path);

// The median behind the warm-up: the first tenth of the values, two at least; of fewer than five
// the first. `tokens_per_gpu`: tokens of a step, for token rates.
struct LoggedStep {
  Duration median{}, least_tenth{}, most_tenth{};  // p50, p10, p90
  int steps = 0, left_out = 0;
};
LoggedStep logged_step(const TrainingLog& log, double tokens_per_gpu);

}  // namespace sim
