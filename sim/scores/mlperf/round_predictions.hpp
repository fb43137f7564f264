// Forecasts of a round of MLPerf Training from configurations and descriptions of systems alone, as
// a file that is written before a log is opened, and their scores against the logs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/control.hpp"
#include "sim/scores/mlperf/round_logs.hpp"
#include "sim/scores/mlperf/submissions.hpp"

namespace sim {

struct RoundPrediction {
  std::string submitter, system, benchmark;
  int gpus = 0;
  std::string config, cluster, digest;
  std::int64_t global_batch = 0;
  std::optional<double> step_s{};
  double low_s = 0, high_s = 0, level = 0;  // the interval; 0: none is shipped
  bool fits = true;
  std::string refused{};  // why there is no forecast

  std::string name() const { return submitter + "/" + system + "/" + benchmark; }
};
struct RoundPredictions {
  std::string program;  // "stepcast 1.2.3"
  std::string written;  // UTC
  std::string round;    // the folder's name
  std::vector<RoundPrediction> rows;
};

// predict_round() forecasts each submission. Throws Stopped.
RoundPredictions predict_round(const std::string& folder,
                               const std::vector<RoundSubmission>& submissions,
                               const Control& control = {});

std::string predictions_json(const RoundPredictions& predictions);
// Throws InputError where the text is no such file.
RoundPredictions read_predictions(const std::string& text, const std::string& path);

struct ScoredSubmission {
  RoundPrediction prediction;
  LoggedRun run;
  std::string unscored{};  // why it has no error; empty: scored

  // (predicted - measured) / measured. REQUIRES: scored.
  double error() const { return *prediction.step_s / *run.step_s - 1; }
  bool within() const {
    return prediction.low_s <= *run.step_s && *run.step_s <= prediction.high_s;
  }
};
struct RoundScore {
  RoundPredictions predictions;
  std::vector<ScoredSubmission> rows;
  int scored = 0, within = 0;
  std::optional<double> median_abs_error, p90_abs_error, worst_abs_error;
};
// score_round() opens the logs below the folder.
RoundScore score_round(const std::string& folder, RoundPredictions predictions);

std::string round_table(const RoundScore& score);
std::string round_markdown(const RoundScore& score);
std::string round_csv(const RoundScore& score);
std::string round_json(const RoundScore& score);

}  // namespace sim
