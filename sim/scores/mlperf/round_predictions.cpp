#include "sim/scores/mlperf/round_predictions.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/config/input_log.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/scores/score.hpp"

namespace sim {
namespace {

RoundPrediction predict_submission(const RoundSubmission& submission, const Control& control) {
  RoundPrediction row{.submitter = submission.submitter,
                      .system = submission.system,
                      .benchmark = submission.benchmark,
                      .gpus = submission.gpus,
                      .config = submission.config,
                      .cluster = submission.cluster,
                      .digest = submission.digest,
                      .refused = submission.refused};
  if (!submission.job) return row;
  row.global_batch = submission.job->layout.global_batch;
  try {
    const Report report = forecast(*submission.job, {}, control).report;
    row.step_s = to_seconds(report.step_time);
    row.fits = report.fits();
    if (!report.interval) return row;
    row.low_s = to_seconds(report.interval->shortest(report.step_time));
    row.high_s = to_seconds(report.interval->longest(report.step_time));
    row.level = report.interval->level;
  } catch (const InputError& error) {
    row.refused = error.problems()[0].what;
  }
  return row;
}

std::string why_unscored(const ScoredSubmission& row, std::size_t logs) {
  const RoundPrediction& predicted = row.prediction;
  if (!predicted.step_s) return predicted.refused;
  if (logs == 0) return "no logs";
  if (!row.run.step_s) return "the logs say no step time, no throughput and no samples of the loss";
  if (row.run.global_batch > 0 && row.run.global_batch != predicted.global_batch)
    return fmt::format("the logs have a batch of {}, the configuration one of {}",
                       row.run.global_batch, predicted.global_batch);
  return {};
}

template <class T>
T value_of(const nlohmann::json& row, const char* key, const std::string& path) {
  try {
    return row.at(key).get<T>();
  } catch (const nlohmann::json::exception&) {
    throw InputError{{path, 0, 0}, fmt::format("'{}' of a prediction is missing or wrong", key)};
  }
}

}  // namespace

RoundPredictions predict_round(const std::string& folder,
                               const std::vector<RoundSubmission>& submissions,
                               const Control& control) {
  RoundPredictions predictions;
  const auto now =
      std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  predictions.written =
      fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
  predictions.round = std::filesystem::absolute(folder).lexically_normal().filename().string();
  for (const RoundSubmission& submission : submissions) {
    throw_if_stopped(control);
    predictions.rows.push_back(predict_submission(submission, control));
  }
  return predictions;
}

std::string predictions_json(const RoundPredictions& predictions) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const RoundPrediction& row : predictions.rows) {
    Json one{{"submitter", row.submitter},
             {"system", row.system},
             {"benchmark", row.benchmark},
             {"gpus", row.gpus}};
    if (row.step_s)
      one.update(Json{{"config", row.config},
                      {"cluster", row.cluster},
                      {"inputs", row.digest},
                      {"global_batch", row.global_batch},
                      {"step_s", *row.step_s},
                      {"low_s", row.low_s},
                      {"high_s", row.high_s},
                      {"level", row.level},
                      {"fits", row.fits}});
    else
      one["refused"] = row.refused;
    rows.push_back(std::move(one));
  }
  return Json{{"program", predictions.program},
              {"written", predictions.written},
              {"round", predictions.round},
              {"predictions", std::move(rows)}}
             .dump(1) +
         "\n";
}

RoundPredictions read_predictions(const std::string& text, const std::string& path) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("predictions") || !json["predictions"].is_array())
    throw InputError{{path, 0, 0},
                     "is no file of predictions, as 'stepcast validate mlperf' writes them"};
  RoundPredictions read{.program = value_of<std::string>(json, "program", path),
                        .written = value_of<std::string>(json, "written", path),
                        .round = value_of<std::string>(json, "round", path),
                        .rows = {}};
  for (const nlohmann::json& one : json["predictions"]) {
    RoundPrediction row{.submitter = value_of<std::string>(one, "submitter", path),
                        .system = value_of<std::string>(one, "system", path),
                        .benchmark = value_of<std::string>(one, "benchmark", path),
                        .gpus = value_of<int>(one, "gpus", path),
                        .config = {},
                        .cluster = {},
                        .digest = {}};
    if (one.contains("refused")) {
      row.refused = value_of<std::string>(one, "refused", path);
    } else {
      row.config = value_of<std::string>(one, "config", path);
      row.cluster = value_of<std::string>(one, "cluster", path);
      row.digest = value_of<std::string>(one, "inputs", path);
      row.global_batch = value_of<std::int64_t>(one, "global_batch", path);
      row.step_s = value_of<double>(one, "step_s", path);
      row.low_s = value_of<double>(one, "low_s", path);
      row.high_s = value_of<double>(one, "high_s", path);
      row.level = value_of<double>(one, "level", path);
      row.fits = value_of<bool>(one, "fits", path);
    }
    read.rows.push_back(std::move(row));
  }
  return read;
}

RoundScore score_round(const std::string& folder, RoundPredictions predictions) {
  RoundScore score;
  std::vector<double> errors;
  for (const RoundPrediction& prediction : predictions.rows) {
    ScoredSubmission row{.prediction = prediction, .run = {}};
    const std::vector<std::string> logs =
        logs_of(folder, prediction.submitter, prediction.system, prediction.benchmark);
    if (prediction.step_s) {
      LogLines lines;
      for (const std::string& log : logs)
        lines.add(read_input(log));
      row.run = lines.run();
    }
    row.unscored = why_unscored(row, logs.size());
    if (row.unscored.empty()) {
      ++score.scored;
      score.within += row.within() ? 1 : 0;
      errors.push_back(std::abs(row.error()));
    }
    score.rows.push_back(std::move(row));
  }
  if (!errors.empty()) {
    score.median_abs_error = quantile(errors, 0.5);
    score.p90_abs_error = quantile(errors, 0.9);
    score.worst_abs_error = quantile(errors, 1);
  }
  score.predictions = std::move(predictions);
  return score;
}

}  // namespace sim
