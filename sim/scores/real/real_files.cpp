// Results of a suite for programs: CSV and JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/report/numbers.hpp"
#include "sim/rows/csv.hpp"
#include "sim/scores/json_cell.hpp"
#include "sim/scores/real/real_tables.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Breakdown& parts) {
  Json json;
  for (const BreakdownField& field : breakdown_fields)
    json[fmt::format("{}_s", field.key)] = to_seconds(parts.*field.member);
  return json;
}

Json json_of(const RealRow& row) {
  Json json = {{"scenario", row.name},
               {"family", row.family},
               {"layout", row.layout},
               {"predicted_s", to_seconds(row.predicted)}};
  if (!row.scored()) {
    json["failed"] = row.failed;
    return json;
  }
  json["measured_s"] = to_seconds(row.measured);
  json["step_error"] = row.step_error();
  json["as_timed_s"] = to_seconds(row.as_timed);
  json["drift"] = number_or_null(row.drift ? std::optional{row.drift->slowdown - 1} : std::nullopt);
  json["drift_left"] = number_or_null(row.drift ? std::optional{row.drift->left} : std::nullopt);
  Json steps = Json::array();
  for (const Duration step : row.steps)
    steps.push_back(to_seconds(step));
  json["steps_s"] = std::move(steps);
  json["predicted_parts"] = json_of(row.predicted_parts);
  json["measured_parts"] = json_of(row.measured_parts);
  json["planned_memory_bytes"] = row.planned_memory.count();
  json["used_memory_bytes"] = row.used_memory.count();
  json["device_memory_bytes"] = row.device_memory.count();
  json["same_work"] = row.difference.empty();
  if (!row.difference.empty()) json["difference"] = row.difference;
  json["first_loss"] = row.first_loss;
  json["last_loss"] = row.last_loss;
  return json;
}

Json json_of(const FamilyScore& family) {
  return {{"family", family.family},
          {"layouts", family.layouts},
          {"spearman", number_or_null(family.spearman)},
          {"kendall", number_or_null(family.kendall)},
          {"favourite", family.favourite},
          {"best", family.best},
          {"favourite_loss", family.favourite_loss}};
}

Json json_of(const RealScore& score) {
  Json families = Json::array();
  for (const FamilyScore& family : score.families)
    families.push_back(json_of(family));
  return {{"scenarios", score.rows},
          {"scored", score.scored},
          {"same_work", score.same_work},
          {"median_step_error", number_or_null(score.median_step_error)},
          {"worst_step_error", number_or_null(score.worst_step_error)},
          {"worst_scenario", score.worst_row},
          {"bias", score.bias},
          {"drift", number_or_null(score.drift)},
          {"drift_left", number_or_null(score.drift_left)},
          {"worst_memory_error", number_or_null(score.worst_memory_error)},
          {"worst_favourite_loss", number_or_null(score.worst_favourite_loss)},
          {"families", std::move(families)}};
}

std::string parts_cells(const Breakdown& parts) {
  std::string text;
  for (const BreakdownField& field : breakdown_fields)
    text += fmt::format("{},", to_seconds(parts.*field.member));
  return text;
}

std::string parts_columns(const char* prefix) {
  std::string text;
  for (const BreakdownField& field : breakdown_fields)
    text += fmt::format("{}_{}_s,", prefix, field.key);
  return text;
}

// measured_cells() is for a row that was measured: everything behind its names and its forecast.
std::string measured_cells(const RealRow& row) {
  std::string text =
      fmt::format("{},{},{},", to_seconds(row.measured), row.step_error(), row.steps.size());
  const auto [least, most] = std::minmax_element(row.steps.begin(), row.steps.end());
  text += row.steps.empty() ? ",," : fmt::format("{},{},", to_seconds(*least), to_seconds(*most));
  text += fmt::format("{},", to_seconds(row.as_timed));
  text += row.drift ? fmt::format("{},{},", row.drift->slowdown - 1, row.drift->left) : ",,";
  text += parts_cells(row.predicted_parts) + parts_cells(row.measured_parts);
  return text + fmt::format("{},{},{},{},{},{},", row.planned_memory.count(),
                            row.used_memory.count(), row.device_memory.count(),
                            row.difference.empty() ? "yes" : "no", row.first_loss, row.last_loss);
}

}  // namespace

std::string real_csv(const RealResult& result) {
  const std::string empty(14 + 2 * breakdown_fields.size(), ',');
  std::string text =
      "date,machine,suite,scenario,family,layout,predicted_s,measured_s,step_error,steps,"
      "fastest_step_s,slowest_step_s,as_timed_s,drift,drift_left," +
      parts_columns("predicted") + parts_columns("measured") +
      "planned_memory_bytes,used_memory_bytes,device_memory_bytes,same_work,first_loss,"
      "last_loss,remark\n";
  for (const RealRow& row : result.rows) {
    text += fmt::format("{},{},{},{},{},{},{},", csv_cell(result.date), csv_cell(result.machine),
                        csv_cell(result.suite.name), csv_cell(row.name), csv_cell(row.family),
                        csv_cell(row.layout), to_seconds(row.predicted));
    text += row.scored() ? measured_cells(row) + csv_cell(row.difference)
                         : empty + csv_cell(row.failed);
    text += '\n';
  }
  return text;
}

std::string real_json(const RealResult& result) {
  Json rows = Json::array();
  for (const RealRow& row : result.rows)
    rows.push_back(json_of(row));
  const Json json = {{"suite", result.suite.name},
                     {"backend", word(result.suite.backend)},
                     {"ranks", result.suite.ranks},
                     {"date", result.date},
                     {"machine", result.machine},
                     {"calibration", result.calibration},
                     {"score", json_of(result.score)},
                     {"exceeded", exceeded(result.score, result.suite.bounds)},
                     {"no_verdict", too_noisy(result.score, result.suite.bounds)},
                     {"scenarios", std::move(rows)}};
  return json.dump(2) + "\n";
}

}  // namespace sim
