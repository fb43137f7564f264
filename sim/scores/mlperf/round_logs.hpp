// Logs of MLPerf Training: lines ":::MLLOG {...}" (mlcommons/logging, mlperf_logging/mllog).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

// LoggedRun is what logs of one submission say of its steps.
struct LoggedRun {
  std::int64_t global_batch = 0;   // 0: not said
  std::optional<double> step_s{};  // the median
  std::string from{};              // which values that is the median of
  std::size_t values = 0;          // how many
};

// LogLines collects the lines of all logs of one submission. Lines that are none are passed over.
class LogLines {
 public:
  void add(std::string_view text);

  // run() prefers step times that the program took itself (train_step_time), then the batch over a
  // throughput in samples, then the time between two lines of the loss without an evaluation
  // between.
  LoggedRun run() const;

 private:
  void add_line(std::string_view json);

  std::int64_t global_batch_ = 0;
  std::vector<double> step_times_, throughputs_, sample_times_;  // s; samples/s; s of a sample
  double loss_ms_ = 0, loss_samples_ = 0;  // of the last line of the loss; 0: none in this block
};

}  // namespace sim
