#include "sim/cli/run_report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/quantity.hpp"
#include "sim/plan/flop_count.hpp"
#include "sim/plan/layout_text.hpp"
#include "sim/report/numbers.hpp"

namespace sim {
namespace {

constexpr std::size_t most_lines = 21;  // of steps in a table

std::string ranks_text(const Layout& layout) {
  return fmt::format("{} ranks: {}", layout.world_size(),
                     layout_text(layout, LayoutForm::sentence));
}

std::string batch_text(const Layout& layout) {
  return fmt::format("{} sequences of {} tokens per step, {} micro-batch{} of {} per replica, {}",
                     layout.global_batch, layout.sequence_length, layout.micro_batches(),
                     layout.micro_batches() == 1 ? "" : "es", layout.micro_batch,
                     word(layout.compute_dtype));
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
                        {"step_time", number(in_seconds(report.median)), "s"},
                        {"step_time.shortest", number(in_seconds(report.shortest)), "s"},
                        {"step_time.longest", number(in_seconds(report.longest)), "s"},
                        {"tokens_per_s", number(report.tokens_per_second), "tokens/s"},
                        {"model_tflops_per_rank", number(teraflops(report)), "TFLOP/s"},
                        {"recorded_step", number(in_seconds(report.recorded)), "s"}};
  for (const BreakdownField& field : breakdown_fields)
    rows.push_back({fmt::format("breakdown.{}", field.key),
                    number(in_seconds(report.breakdown.*field.member)), "s"});
  rows.push_back({"arena.planned", std::to_string(report.planned_arena), "B"});
  rows.push_back({"arena.used", std::to_string(report.used_arena), "B"});
  rows.push_back({"device_mem_besides", std::to_string(report.device), "B"});
  for (const real::StepResult& step : report.steps) {
    rows.push_back({fmt::format("step.{}.loss", step.step), number(step.loss), ""});
    rows.push_back(
        {fmt::format("step.{}.gradient_norm", step.step), number(step.gradient_norm), ""});
    rows.push_back(
        {fmt::format("step.{}.learning_rate", step.step), number(step.learning_rate), ""});
    rows.push_back({fmt::format("step.{}.time", step.step), number(in_seconds(step.time)), "s"});
  }
  return rows;
}

std::string times_text(const RunReport& report) {
  const std::size_t counted = report.steps.size() - report.warm_up;
  return fmt::format("{} median of {} ({} to {}); {} before that not counted",
                     precise(report.median), counted, precise(report.shortest),
                     precise(report.longest), report.warm_up);
}

std::string breakdown_text(const RunReport& report) {
  std::string text = fmt::format("last step  {}, mean over ranks:\n", precise(report.recorded));
  for (const BreakdownField& field : breakdown_fields) {
    const Duration part = report.breakdown.*field.member;
    text += fmt::format("  {:<18}{:>10}  {:>5.1f} %\n", field.title, precise(part),
                        100 * in_seconds(part) / in_seconds(report.recorded));
  }
  return text;
}

std::string memory_text(const RunReport& report) {
  std::string text = fmt::format("{} used of {} planned", to_text(Bytes{report.used_arena}),
                                 to_text(Bytes{report.planned_arena}));
  if (report.device > 0)
    text += fmt::format("; context and libraries besides: {}", to_text(Bytes{report.device}));
  return text + " (the rank with most)";
}

}  // namespace

RunReport make_run_report(const Scenario& scenario, const Plan& plan, const TrainingRun& run) {
  RunReport report{.scenario = scenario.name,
                   .model = scenario.model.name,
                   .backend = run.backend,
                   .launched_by = run.launched_by,
                   .machine = machine_name(),
                   .parameters = plan.parameters,
                   .layout = plan.layout,
                   .seed = scenario.training.seed,
                   .steps = run.steps,
                   .warm_up = run.warm_up,
                   .model_rate = {},
                   .recorded = run.timeline.end.time_since_epoch(),
                   .breakdown = {},
                   .interrupted = run.interrupted};
  const std::vector<Duration> times = run.counted_times();
  report.shortest = times.front();
  report.longest = times.back();
  report.median = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
  const double seconds = std::max(in_seconds(report.median), 1e-12);
  report.tokens_per_second = static_cast<double>(plan.tokens) / seconds;
  const AttentionCount count =
      scenario.flops.causal_half() ? AttentionCount::causal_half : AttentionCount::full;
  report.model_rate = FlopRate::per_second(model_flops(scenario.model, plan.layout, count).count() /
                                           seconds / static_cast<double>(plan.world_size()));
  std::vector<std::pair<Breakdown, std::uint64_t>> parts;
  for (const RankTrack& track : run.timeline.tracks)
    parts.emplace_back(break_down(track, plan.program(track.rank), run.timeline.end,
                                  plan.layout.pipeline_parallel > 1),
                       1);
  if (!parts.empty()) report.breakdown = weighted_mean(parts);
  for (std::size_t r = 0; r < run.memory.size(); ++r) {
    report.planned_arena = std::max(report.planned_arena, run.planned_arena[r]);
    report.used_arena = std::max(report.used_arena, run.memory[r].arena);
    report.device = std::max(report.device, run.memory[r].device);
  }
  return report;
}

std::string run_table(const RunReport& report) {
  std::string text = fmt::format(
      "{}: {} ({} parameters)\n  {} backend on {}; ranks by {}\n  {}\n  {}\n\n", report.scenario,
      report.model, scaled_count(report.parameters), report.backend, report.machine,
      report.launched_by, ranks_text(report.layout), batch_text(report.layout));
  text += fmt::format("  {:>8}  {:>10}  {:>13}  {:>13}  {:>10}\n", "step", "loss", "gradient norm",
                      "learning rate", "time");
  for (const std::size_t i : shown_steps(report.steps.size())) {
    const real::StepResult& step = report.steps[i];
    text += fmt::format("  {:>8}  {:>10.5f}  {:>13.5f}  {:>13.4g}  {:>10}\n", step.step, step.loss,
                        step.gradient_norm, step.learning_rate, precise(step.time));
  }
  text +=
      fmt::format("\nstep time  {}\ntokens/s   {}; {} of the model per rank\n", times_text(report),
                  significant(report.tokens_per_second), to_text(report.model_rate));
  if (report.recorded > Duration{}) text += breakdown_text(report);
  text += fmt::format("memory     {}\nseed       {}\n", memory_text(report), report.seed);
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
                    {"step_time_s", in_seconds(report.median)},
                    {"step_time_shortest_s", in_seconds(report.shortest)},
                    {"step_time_longest_s", in_seconds(report.longest)},
                    {"warm_up_steps", report.warm_up},
                    {"tokens_per_s", report.tokens_per_second},
                    {"model_tflops_per_rank", teraflops(report)},
                    {"recorded_step_s", in_seconds(report.recorded)}};
  ordered_json& breakdown = json["breakdown_s"];
  for (const BreakdownField& field : breakdown_fields)
    breakdown[std::string{field.key}] = in_seconds(report.breakdown.*field.member);
  json["memory_bytes"] = {{"arena_planned", report.planned_arena},
                          {"arena_used", report.used_arena},
                          {"device_besides", report.device}};
  ordered_json& steps = json["steps"] = ordered_json::array();
  for (const real::StepResult& step : report.steps)
    steps.push_back({{"step", step.step},
                     {"loss", step.loss},
                     {"gradient_norm", step.gradient_norm},
                     {"learning_rate", step.learning_rate},
                     {"time_s", in_seconds(step.time)}});
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

std::string machine_name() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::ifstream in{"/proc/cpuinfo"};
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos)
      return fmt::format("{} ({})", host.data(), line.substr(colon + 2));
  }
  return host.data();
}

}  // namespace sim
