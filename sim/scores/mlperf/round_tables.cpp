#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/rows/csv.hpp"
#include "sim/scores/cell_text.hpp"
#include "sim/scores/json_cell.hpp"
#include "sim/scores/mlperf/round_predictions.hpp"

namespace sim {
namespace {

struct RoundCells {
  std::string name, forecast, interval, measured, error, within;
};

RoundCells cells_of(const ScoredSubmission& row) {
  const RoundPrediction& prediction = row.prediction;
  RoundCells cells{.name = prediction.name(),
                   .forecast = "-",
                   .interval = "-",
                   .measured = "-",
                   .error = "-",
                   .within = "-"};
  if (prediction.step_s) cells.forecast = fmt::format("{:.4f}", *prediction.step_s);
  if (prediction.level > 0)
    cells.interval = fmt::format("{:.4f} to {:.4f}", prediction.low_s, prediction.high_s);
  if (row.run.step_s) cells.measured = fmt::format("{:.4f}", *row.run.step_s);
  if (!row.unscored.empty()) return cells;
  cells.error = fmt::format("{:+.1f}%", row.error() * 100);
  if (prediction.level > 0) cells.within = row.within() ? "yes" : "no";
  return cells;
}

std::string round_summary(const RoundScore& score) {
  std::size_t forecast = 0;
  for (const ScoredSubmission& row : score.rows)
    forecast += row.prediction.step_s ? 1 : 0;
  std::string text = fmt::format(
      "{} submissions, {} forecast, {} scored; absolute error: median {}, p90 {}, worst {}; {} of "
      "{} within their interval\n",
      score.rows.size(), forecast, score.scored, percent_text(score.median_abs_error),
      percent_text(score.p90_abs_error), percent_text(score.worst_abs_error), score.within,
      score.scored);
  return text + fmt::format("predictions of {}, written {} from {}\n", score.predictions.program,
                            score.predictions.written, score.predictions.round);
}

// The reasons why rows have no error, with how many have each.
std::string unscored_text(const RoundScore& score) {
  std::map<std::string, std::vector<std::string>> rows;
  for (const ScoredSubmission& row : score.rows)
    if (!row.unscored.empty()) rows[row.unscored].push_back(row.prediction.name());
  std::string text;
  for (const auto& [why, names] : rows)
    text += fmt::format("not scored: {}: {}\n", fmt::join(names, ", "), why);
  return text;
}

}  // namespace

std::string round_table(const RoundScore& score) {
  std::string text = fmt::format("{:<66}{:>6}{:>12}{:>22}{:>12}{:>9}{:>8}\n", "submission", "GPUs",
                                 "forecast s", "interval", "measured s", "error", "within");
  for (const ScoredSubmission& row : score.rows) {
    if (!row.prediction.step_s) continue;
    const RoundCells cells = cells_of(row);
    text +=
        fmt::format("{:<66}{:>6}{:>12}{:>22}{:>12}{:>9}{:>8}\n", cells.name, row.prediction.gpus,
                    cells.forecast, cells.interval, cells.measured, cells.error, cells.within);
  }
  return text + unscored_text(score) + round_summary(score);
}

std::string round_markdown(const RoundScore& score) {
  std::string text =
      "| submission | GPUs | forecast (s) | interval | measured (s) | error | within |\n"
      "|---|--:|--:|--:|--:|--:|---|\n";
  for (const ScoredSubmission& row : score.rows) {
    if (!row.prediction.step_s) continue;
    const RoundCells cells = cells_of(row);
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", cells.name, row.prediction.gpus,
                        cells.forecast, cells.interval, cells.measured, cells.error, cells.within);
  }
  return text + "\n" + round_summary(score);
}

std::string round_csv(const RoundScore& score) {
  std::string text =
      "submitter,system,benchmark,config,gpus,global_batch,forecast_s,low_s,high_s,fits,measured_s,"
      "measured_from,error,within,unscored\n";
  for (const ScoredSubmission& row : score.rows) {
    const RoundPrediction& one = row.prediction;
    const auto number = [](std::optional<double> value) {
      return value ? fmt::format("{:.6g}", *value) : std::string{};
    };
    const bool scored = row.unscored.empty();
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_cell(one.submitter),
                    csv_cell(one.system), csv_cell(one.benchmark), csv_cell(one.config), one.gpus,
                    one.global_batch, number(one.step_s), one.level > 0 ? number(one.low_s) : "",
                    one.level > 0 ? number(one.high_s) : "",
                    one.step_s ? (one.fits ? "yes" : "no") : "", number(row.run.step_s),
                    csv_cell(row.run.from), scored ? fmt::format("{:.4f}", row.error()) : "",
                    scored ? (row.within() ? "yes" : "no") : "", csv_cell(row.unscored));
  }
  return text;
}

std::string round_json(const RoundScore& score) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const ScoredSubmission& row : score.rows) {
    const bool scored = row.unscored.empty();
    rows.push_back({{"submission", row.prediction.name()},
                    {"config", row.prediction.config},
                    {"gpus", row.prediction.gpus},
                    {"forecast_s", number_or_null(row.prediction.step_s)},
                    {"low_s", row.prediction.low_s},
                    {"high_s", row.prediction.high_s},
                    {"measured_s", number_or_null(row.run.step_s)},
                    {"measured_from", row.run.from},
                    {"error", scored ? Json(row.error()) : Json()},
                    {"within", scored ? Json(row.within()) : Json()},
                    {"unscored", row.unscored}});
  }
  return Json{{"program", score.predictions.program},
              {"written", score.predictions.written},
              {"round", score.predictions.round},
              {"scored", score.scored},
              {"within", score.within},
              {"median_abs_error", number_or_null(score.median_abs_error)},
              {"p90_abs_error", number_or_null(score.p90_abs_error)},
              {"worst_abs_error", number_or_null(score.worst_abs_error)},
              {"submissions", std::move(rows)}}
             .dump(2) +
         "\n";
}

}  // namespace sim
