// The answer as JSON, and flattened as CSV and Markdown (metric, value, unit).
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/economics/budget_report.hpp"
#include "sim/report/numbers.hpp"

namespace sim {
namespace {

using Json = nlohmann::ordered_json;

// A key added: same number. A key removed, or one whose meaning changes: the next.
constexpr int schema_version = 1;

// JSON has no infinity.
Json number_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json wall_json(const Distribution& wall) {
  return {{"mean_s", wall.mean.count()},
          {"standard_error_s", wall.standard_error.count()},
          {"quantile_2_5_s", wall.quantile(0.025).count()},
          {"quantile_5_s", wall.quantile(0.05).count()},
          {"quantile_50_s", wall.quantile(0.5).count()},
          {"quantile_95_s", wall.quantile(0.95).count()},
          {"quantile_97_5_s", wall.quantile(0.975).count()}};
}

Json cost_json(const Costs& cost, const std::string& currency) {
  if (!cost.rent) return nullptr;
  return {{"currency", currency},
          {"mean", *cost.rent},
          {"quantile_2_5", cost.low},
          {"quantile_97_5", cost.high}};
}

void add_played(Json& json, const BudgetAnswer& answer, const RunForecast& run,
                const std::optional<double>& price) {
  const Budget& budget = answer.budget;
  const Seconds mean = run.wall.mean;
  const Seconds difference = mean - run.expected;
  json["monte_carlo"] = {
      {"goodput", run.goodput()},
      {"goodput_standard_error", run.goodput() * (run.wall.standard_error / mean)},
      {"wall_time", wall_json(run.wall)}};
  json["difference"] = {{"wall_time_s", difference.count()},
                        {"standard_errors", number_or_null(difference / run.wall.standard_error)}};
  json["mean_time_s"] = {
      {"work", run.model.work.count()},
      {"checkpoints",
       (run.model.part_stall() * static_cast<double>(run.model.parts()) + run.model.lag).count()},
      {"done_again", run.lost.count()},
      {"down", run.down.count()},
      {"waiting_for_a_node", run.waited.count()},
      {"slow_nodes", run.slow.count()}};
  json["failures"] = run.failures;
  json["preemptions"] = run.preemptions;
  json["corruptions"] = run.corruptions;
  json["wall_time_days"] = mean.count() / 86400;
  if (const std::optional<TimeInterval>& interval = answer.forecast.interval) {
    json["wall_time_days_low"] = mean.count() / 86400 * interval->low;
    json["wall_time_days_high"] = mean.count() / 86400 * interval->high;
  }
  json["gpu_hours"] = gpu_hours(answer.forecast, mean);
  json["cost"] = cost_json(costs(answer.forecast, run, price), budget.prices.currency);
  const double kwh = energy_kwh(answer.forecast, budget, mean);
  json["energy_kwh"] = kwh;
  json["energy_cost"] = budget.prices.kwh ? Json{{"currency", budget.prices.currency},
                                                 {"mean", kwh * *budget.prices.kwh}}
                                          : Json(nullptr);
  if (budget.finish_in) json["probability_in_time"] = run.probability_within(*budget.finish_in);
}

Json run_json(const BudgetAnswer& answer, const RunForecast& run,
              const std::optional<double>& price) {
  Json json;
  json["ends"] = run.ends();
  json["mtbf_h"] = number_or_null(run.mtbf.count() / 3600);
  json["restart_s"] = run.model.failures.restart.count();
  json["checkpoint_interval_s"] = run.model.segment().count();
  json["checkpoints"] = run.model.segments;
  json["closed_form"] = {{"goodput", run.expected_goodput()},
                         {"wall_time_s", number_or_null(run.expected.count())}};
  if (run.ends()) add_played(json, answer, run, price);
  return json;
}

Json checkpoint_json(const BudgetForecast& forecast, const CheckpointRules& rules) {
  return {{"asynchronous", rules.asynchronous},
          {"size_bytes", rules.bytes.value_or(forecast.checkpoint.total).count()},
          {"plan_bytes", forecast.checkpoint.total.count()},
          {"per_gpu_bytes", forecast.checkpoint.per_gpu.count()},
          {"per_node_bytes", forecast.checkpoint.per_node.count()},
          {"write_s", forecast.times.write.count()},
          {"stall_s", forecast.times.stall.count()},
          {"load_s", forecast.times.load.count()}};
}

Json finish_json(const BudgetAnswer& answer) {
  const FinishAnswer& finish = *answer.finish;
  const Budget& budget = answer.budget;
  Json rows = Json::array();
  for (const FinishCandidate& candidate : finish.looked_at) {
    Json row{{"gpus", candidate.gpus},
             {"data_parallel", candidate.data_parallel},
             {"global_batch", candidate.global_batch},
             {"refused", candidate.refused}};
    if (candidate.refused.empty()) {
      const RunForecast& run = candidate.forecast.rented;
      row["step_time_s"] = in_seconds(candidate.forecast.step);
      row["wall_time_days"] = run.wall.mean.count() / 86400;
      row["at_confidence_days"] = run.quantile(budget.confidence).count() / 86400;
      row["probability_in_time"] = candidate.probability;
      row["cost"] =
          cost_json(costs(candidate.forecast, run, budget.prices.gpu_hour), budget.prices.currency);
    }
    rows.push_back(std::move(row));
  }
  return {{"finish_in_days", budget.finish_in->count() / 86400},
          {"confidence", budget.confidence},
          {"scaling", word(budget.scaling)},
          {"gpus", finish.chosen < 0 ? Json(nullptr) : Json(answer.forecast.gpus)},
          {"why_not", finish.why_not},
          {"legal_numbers", finish.legal},
          {"looked_at", std::move(rows)}};
}

Json helps_json(const BudgetAnswer& answer) {
  Json rows = Json::array();
  for (const Help& help : answer.helps)
    rows.push_back(
        {{"change", help.what}, {"goodput", help.goodput}, {"gpu_hours_factor", help.gpu_hours}});
  return rows;
}

Json to_json(const BudgetAnswer& answer) {
  const BudgetForecast& forecast = answer.forecast;
  const Budget& budget = answer.budget;
  Json json{{"schema_version", schema_version},
            {"tool_version", STEPCAST_VERSION},
            {"scenario", forecast.scenario},
            {"model", forecast.model},
            {"cluster", forecast.cluster},
            {"device", forecast.device},
            {"gpus", forecast.gpus},
            {"nodes", forecast.nodes},
            {"data_parallel", forecast.layout.data_parallel},
            {"global_batch", forecast.layout.global_batch},
            {"fits", forecast.fits},
            {"seed", budget.seed},
            {"runs", budget.runs}};
  if (forecast.fits) {
    json["step_time_s"] = in_seconds(forecast.step);
    if (forecast.interval) {
      json["step_time_s_low"] = in_seconds(forecast.step) * forecast.interval->low;
      json["step_time_s_high"] = in_seconds(forecast.step) * forecast.interval->high;
      json["interval_share"] = forecast.interval->level;
    }
    json["mfu"] = forecast.mfu;
    json["steps"] = forecast.steps;
    json["tokens_per_step"] = forecast.tokens_per_step;
    json["tokens"] = forecast.tokens;
    json["token_unit"] = forecast.counts_samples ? "sample" : "token";
    json["checkpoint"] = checkpoint_json(forecast, budget.checkpoint);
    json["spare_nodes"] = forecast.spare_nodes;
    json["memory_checkpoint"] = forecast.copies.every == 0
                                    ? Json(nullptr)
                                    : Json{{"every_steps", forecast.copies.every},
                                           {"stall_s", forecast.copies.stall.count()},
                                           {"usable_after_s", forecast.copies.lag.count()},
                                           {"load_s", forecast.copies.load.count()}};
    json["elastic_speeds"] = forecast.elastic_speeds;
    json["would_help"] = helps_json(answer);
    json["on_demand"] = run_json(answer, forecast.rented, budget.prices.gpu_hour);
    json["spot"] =
        forecast.spot ? run_json(answer, *forecast.spot, budget.prices.spot) : Json(nullptr);
  }
  json["finish"] = answer.finish ? finish_json(answer) : Json(nullptr);
  json["assumptions"] = Json::array();
  for (const Assumption& assumption : budget.assumptions)
    json["assumptions"].push_back(
        {{"key", assumption.key}, {"value", assumption.value}, {"source", assumption.source}});
  return json;
}

struct Row {
  std::string metric, value, unit;
};

// The unit that a name of the JSON ends with.
std::string unit_of(const std::string& metric) {
  for (const auto& [ending, unit] : {std::pair{"_s", "s"},
                                     {"_days", "days"},
                                     {"_h", "h"},
                                     {"_bytes", "B"},
                                     {"_kwh", "kWh"},
                                     {"gpu_hours", "GPU h"}})
    if (metric.ends_with(ending)) return unit;
  return metric.find(".mean_time_s.") != std::string::npos ? "s" : "";
}

// Every number and word of the JSON by its path; `currency` is the unit of what lies beside it.
void flatten(const Json& json, const std::string& path, std::vector<Row>& rows) {
  for (const auto& [key, value] : json.items()) {
    const std::string name = path.empty() ? key : fmt::format("{}.{}", path, key);
    if (value.is_structured()) {
      flatten(value, name, rows);
    } else if (key != "currency" && !value.is_null()) {
      const bool money = json.is_object() && json.contains("currency");
      rows.push_back({name, value.is_string() ? value.get<std::string>() : value.dump(),
                      money ? json["currency"].get<std::string>() : unit_of(name)});
    }
  }
}

std::vector<Row> rows_of(const BudgetAnswer& answer) {
  Json json = to_json(answer);
  json.erase("assumptions");
  json.erase("schema_version");
  json.erase("scenario");
  std::vector<Row> rows;
  flatten(json, "", rows);
  return rows;
}

}  // namespace

std::string budget_json(const BudgetAnswer& answer) {
  return to_json(answer).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string budget_csv(const BudgetAnswer& answer) {
  const std::string scenario = csv_field(answer.forecast.scenario);
  std::string text = "scenario,metric,value,unit,source\n";
  for (const Row& row : rows_of(answer))
    text += fmt::format("{},{},{},{},\n", scenario, row.metric, csv_field(row.value), row.unit);
  for (const Assumption& assumption : answer.budget.assumptions)
    text += fmt::format("{},assumptions.{},{},,{}\n", scenario, assumption.key,
                        csv_field(assumption.value), csv_field(assumption.source));
  return text;
}

std::string budget_markdown(const BudgetAnswer& answer) {
  std::string text = fmt::format("## {}\n\n| metric | value | unit |\n|---|---:|---|\n",
                                 markdown_field(answer.forecast.scenario));
  for (const Row& row : rows_of(answer))
    text += fmt::format("| {} | {} | {} |\n", row.metric, markdown_field(row.value), row.unit);
  text += "\n| assumption | value | source |\n|---|---:|---|\n";
  for (const Assumption& assumption : answer.budget.assumptions)
    text += fmt::format("| {} | {} | {} |\n", assumption.key, markdown_field(assumption.value),
                        markdown_field(assumption.source));
  return text;
}

}  // namespace sim
