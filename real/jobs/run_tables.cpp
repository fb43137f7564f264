#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "real/jobs/run_report.hpp"
#include "sim/base/quantity.hpp"
#include "sim/layout/layout_text.hpp"
#include "sim/report/numbers.hpp"

namespace real {
namespace {

constexpr std::size_t most_lines = 21;  // of steps in a table

std::string ranks_text(const sim::Layout& layout) {
  return fmt::format("{} ranks: {}", layout.world_size(),
                     sim::layout_text(layout, sim::LayoutForm::sentence));
}

std::string batch_text(const sim::Layout& layout) {
  return fmt::format("{} sequences of {} tokens per step, {} micro-batch{} of {} per replica, {}",
                     layout.global_batch, layout.sequence_length, layout.micro_batches(),
                     layout.micro_batches() == 1 ? "" : "es", layout.micro_batch,
                     sim::word(layout.compute_dtype));
}

// All steps, or evenly chosen ones with the first and the last.
std::vector<std::size_t> shown_steps(std::size_t count) {
  std::vector<std::size_t> shown;
  const std::size_t lines = std::min(count, most_lines);
  for (std::size_t i = 0; i < lines; ++i)
    shown.push_back(lines == 1 ? 0 : i * (count - 1) / (lines - 1));
  return shown;
}

struct Row {
  std::string metric, value, unit;
};

std::string number(double value) {
  return fmt::format("{}", value);
}

double teraflops(const RunReport& report) {
  return report.model_rate.in_flops_per_second() / 1e12;
}

std::vector<Row> rows_of(const RunReport& report) {
  std::vector<Row> rows{{"ranks", std::to_string(report.layout.world_size()), ""},
                        {"steps", std::to_string(report.steps.size()), ""},
                        {"warm_up_steps", std::to_string(report.warm_up), ""},
                        {"step_time", number(sim::in_seconds(report.median)), "s"},
                        {"step_time.shortest", number(sim::in_seconds(report.shortest)), "s"},
                        {"step_time.longest", number(sim::in_seconds(report.longest)), "s"},
                        {"tokens_per_s", number(report.tokens_per_second), "tokens/s"},
                        {"model_tflops_per_rank", number(teraflops(report)), "TFLOP/s"},
                        {"recorded_step", number(sim::in_seconds(report.recorded)), "s"}};
  for (const sim::BreakdownField& field : sim::breakdown_fields)
    rows.push_back({fmt::format("breakdown.{}", field.key),
                    number(sim::in_seconds(report.breakdown.*field.member)), "s"});
  rows.push_back({"arena.planned", std::to_string(report.planned_arena), "B"});
  rows.push_back({"arena.used", std::to_string(report.used_arena), "B"});
  rows.push_back({"device_mem_besides", std::to_string(report.device), "B"});
  for (const StepResult& step : report.steps) {
    rows.push_back({fmt::format("step.{}.loss", step.step), number(step.loss), ""});
    rows.push_back(
        {fmt::format("step.{}.gradient_norm", step.step), number(step.gradient_norm), ""});
    rows.push_back(
        {fmt::format("step.{}.learning_rate", step.step), number(step.learning_rate), ""});
    rows.push_back(
        {fmt::format("step.{}.time", step.step), number(sim::in_seconds(step.time)), "s"});
  }
  return rows;
}

std::string times_text(const RunReport& report) {
  const std::size_t counted = report.steps.size() - report.warm_up;
  return fmt::format("{} median of {} ({} to {}); {} before that not counted",
                     sim::precise(report.median), counted, sim::precise(report.shortest),
                     sim::precise(report.longest), report.warm_up);
}

std::string breakdown_text(const RunReport& report) {
  std::string text =
      fmt::format("last step  {}, mean over ranks:\n", sim::precise(report.recorded));
  for (const sim::BreakdownField& field : sim::breakdown_fields) {
    if (!field.shows(report.breakdown)) continue;
    const sim::Duration part = report.breakdown.*field.member;
    text += fmt::format("  {:<18}{:>10}  {:>5.1f} %\n", field.title, sim::precise(part),
                        100 * sim::in_seconds(part) / sim::in_seconds(report.recorded));
  }
  return text;
}

std::string memory_text(const RunReport& report) {
  std::string text =
      fmt::format("{} used of {} planned", sim::to_text(sim::Bytes{report.used_arena}),
                  sim::to_text(sim::Bytes{report.planned_arena}));
  if (report.device > 0)
    text +=
        fmt::format("; context and libraries besides: {}", sim::to_text(sim::Bytes{report.device}));
  if (report.nccl.communicators > 0)
    text += fmt::format(", of which NCCL should have {} in {} communicators, on {} SMs at once",
                        sim::to_text(report.nccl.buffers), report.nccl.communicators,
                        report.nccl.blocks);
  return text + " (the rank with most)";
}

// The tokens of experts, each over the mean, as text.
std::string loads_text(const RunReport& report) {
  std::string text = "experts    tokens over the mean in the last step:\n";
  for (const LayerLoad& layer : report.expert_loads) {
    const auto count = static_cast<double>(layer.tokens.size());
    double sum = 0, squares = 0, fullest = 0;
    for (const std::int64_t tokens : layer.tokens) {
      sum += static_cast<double>(tokens);
      squares += static_cast<double>(tokens) * static_cast<double>(tokens);
    }
    const double mean = sum / count;
    const double cv = std::sqrt(std::max(0.0, squares / count / (mean * mean) - 1));
    const auto [least, most] = std::minmax_element(layer.tokens.begin(), layer.tokens.end());
    const auto held = layer.tokens.size() / static_cast<std::size_t>(report.layout.expert_parallel);
    for (std::size_t first = 0; first < layer.tokens.size(); first += held) {
      double own = 0;
      for (std::size_t i = first; i < first + held; ++i)
        own += static_cast<double>(layer.tokens[i]);
      fullest = std::max(fullest, own / static_cast<double>(held) / mean);
    }
    text +=
        fmt::format("  layer {:<6}{:.2f} to {:.2f}, cv {:.2f}; the fullest of {} ranks {:.2f}\n",
                    layer.layer, static_cast<double>(*least) / mean,
                    static_cast<double>(*most) / mean, cv, report.layout.expert_parallel, fullest);
  }
  return text;
}

}  // namespace

std::string run_table(const RunReport& report) {
  std::string text = fmt::format(
      "{}: {} ({} parameters)\n  {} backend on {}; ranks by {}\n  {}\n  {}\n\n", report.scenario,
      report.model, sim::scaled_count(report.parameters), report.backend, report.machine,
      report.launched_by, ranks_text(report.layout), batch_text(report.layout));
  text += fmt::format("  {:>8}  {:>10}  {:>13}  {:>13}  {:>10}\n", "step", "loss", "gradient norm",
                      "learning rate", "time");
  for (const std::size_t i : shown_steps(report.steps.size())) {
    const StepResult& step = report.steps[i];
    text += fmt::format("  {:>8}  {:>10.5f}  {:>13.5f}  {:>13.4g}  {:>10}\n", step.step, step.loss,
                        step.gradient_norm, step.learning_rate, sim::precise(step.time));
  }
  text +=
      fmt::format("\nstep time  {}\ntokens/s   {}; {} of the model per rank\n", times_text(report),
                  sim::significant(report.tokens_per_second), sim::to_text(report.model_rate));
  if (report.recorded > sim::Duration{}) text += breakdown_text(report);
  if (!report.expert_loads.empty()) text += loads_text(report);
  if (!report.staleness.empty()) text += "staleness  " + sim::to_text(report.staleness, 2) + "\n";
  text += fmt::format("memory     {}\nseed       {}\n", memory_text(report), report.seed);
  for (const LostRank& lost : report.lost)
    text += fmt::format(
        "lost       rank {} in step {}, which {} replica{} trained anew: {} sequences a step from "
        "there on, and the times are theirs\n",
        lost.rank, lost.step, lost.replicas, lost.replicas == 1 ? "" : "s", lost.global_batch);
  if (report.interrupted) text += "interrupted: the steps above are those that were trained\n";
  return text;
}

std::string run_json(const RunReport& report) {
  using nlohmann::ordered_json;
  ordered_json json{{"scenario", report.scenario},
                    {"model", report.model},
                    {"backend", report.backend},
                    {"launched_by", report.launched_by},
                    {"machine", report.machine},
                    {"parameters", report.parameters},
                    {"ranks", report.layout.world_size()},
                    {"layout", ranks_text(report.layout)},
                    {"seed", report.seed},
                    {"interrupted", report.interrupted},
                    {"step_time_s", sim::in_seconds(report.median)},
                    {"step_time_shortest_s", sim::in_seconds(report.shortest)},
                    {"step_time_longest_s", sim::in_seconds(report.longest)},
                    {"warm_up_steps", report.warm_up},
                    {"tokens_per_s", report.tokens_per_second},
                    {"model_tflops_per_rank", teraflops(report)},
                    {"recorded_step_s", sim::in_seconds(report.recorded)}};
  if (!report.staleness.empty())
    json["staleness"] = {{"mean", report.staleness.mean()}, {"counts", report.staleness.counts()}};
  ordered_json& breakdown = json["breakdown_s"];
  for (const sim::BreakdownField& field : sim::breakdown_fields)
    breakdown[std::string{field.key}] = sim::in_seconds(report.breakdown.*field.member);
  json["memory_bytes"] = {{"arena_planned", report.planned_arena},
                          {"arena_used", report.used_arena},
                          {"device_besides", report.device}};
  if (report.nccl.communicators > 0)
    json["nccl_expected"] = {{"communicators", report.nccl.communicators},
                             {"buffer_bytes", report.nccl.buffers.count()},
                             {"sms_at_once", report.nccl.blocks}};
  for (const LayerLoad& layer : report.expert_loads)
    json["expert_loads"].push_back({{"layer", layer.layer}, {"tokens", layer.tokens}});
  for (const LostRank& lost : report.lost)
    json["lost"].push_back({{"rank", lost.rank},
                            {"step", lost.step},
                            {"replicas", lost.replicas},
                            {"global_batch", lost.global_batch}});
  ordered_json& steps = json["steps"] = ordered_json::array();
  for (const StepResult& step : report.steps)
    steps.push_back({{"step", step.step},
                     {"loss", step.loss},
                     {"gradient_norm", step.gradient_norm},
                     {"learning_rate", step.learning_rate},
                     {"time_s", sim::in_seconds(step.time)}});
  return json.dump(2) + "\n";
}

std::string run_csv(const RunReport& report) {
  std::string text = "metric,value,unit\n";
  for (const Row& row : rows_of(report))
    text += fmt::format("{},{},{}\n", row.metric, row.value, row.unit);
  return text;
}

std::string run_markdown(const RunReport& report) {
  std::string text = fmt::format(
      "**{}**: {} backend on {}, {}\n\n| metric | value | unit |\n"
      "|---|---|---|\n",
      report.scenario, report.backend, report.machine, ranks_text(report.layout));
  for (const Row& row : rows_of(report))
    text += fmt::format("| {} | {} | {} |\n", row.metric, row.value, row.unit);
  return text;
}

}  // namespace real
