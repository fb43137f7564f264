// The variability of steps for people, as JSON, CSV and Markdown.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/table_text.hpp"
#include "sim/report/text_grid.hpp"
#include "sim/sweep/step_variability.hpp"

namespace sim {
namespace {

// differ() compares draws, which are sums of doubles.
bool differ(Duration a, Duration b) {
  constexpr double rounding = 1e-6;
  return std::abs(to_seconds(a) / to_seconds(b) - 1) > rounding;
}

TextGrid grid_of(const StepVariability& steps) {
  TextGrid grid{.columns = {{"step", "step"}, {"time", "time_s"}, {"", "of_undisturbed"}},
                .rows = {}};
  const Duration base = steps.undisturbed.step_time;
  const auto row = [&](const char* name, Duration time) {
    const double ratio = differ(time, base) ? to_seconds(time) / to_seconds(base) : 1;
    grid.rows.push_back(
        {std::string{name}, GridCell{precise(time), fmt::format("{}", in_seconds(time))},
         GridCell{fmt::format("{:+.1f} %", 100 * (ratio - 1)), fmt::format("{:.5f}", ratio)}});
  };
  row("undisturbed", base);
  row("5 % are shorter than", steps.p5);
  row("median", steps.p50);
  row("95 % are shorter than", steps.p95);
  row("99 % are shorter than", steps.p99);
  row("mean", steps.mean);
  if (differ(steps.fabric_alone, base)) row("mean by the fabric alone", steps.fabric_alone);
  if (differ(steps.slow_alone, base)) row("mean by slow nodes alone", steps.slow_alone);
  if (differ(steps.allocation_alone, base))
    row("mean by allocations alone", steps.allocation_alone);
  return grid;
}

std::string about(const StepVariability& steps) {
  const Disturbance& by = steps.disturbance;
  std::string text = fmt::format("{}: {}, {} GPUs on {} node{}\n", word(by.preset), steps.path,
                                 steps.undisturbed.gpus, steps.nodes, steps.nodes == 1 ? "" : "s");
  if (by.fabric_share_low < 1)
    text += fmt::format(
        "  a step has {:.0f} % of the bandwidth between nodes in the median, {:.0f} and {:.0f} % "
        "in "
        "the worst and best twentieth\n",
        100 * by.fabric_share, 100 * by.fabric_share_low, 100 * by.fabric_share_high);
  if (by.slow_nodes > 0)
    text += fmt::format(
        "  {:g} % of nodes are {:g} times as slow: {:.0f} % of jobs of this size have one\n",
        100 * by.slow_nodes, by.slow_factor, 100 * steps.slow_chance);
  if (by.occupancy > 0)
    text +=
        fmt::format("  other jobs have {:.0f} % of the cluster's nodes; this one gets the rest\n",
                    100 * by.occupancy);
  return text;
}

std::string pages(const StepVariability& steps, std::string (*grid)(const TextGrid&)) {
  std::string text = about(steps) + "\n" + grid(grid_of(steps));
  if (differ(steps.mean, steps.undisturbed.step_time))
    text += fmt::format("\nFor a budget: --set budget.step_factor={:.4f}\n", steps.factor());
  return text;
}

}  // namespace

std::string variability_table(const StepVariability& steps) {
  return pages(steps, grid_table);
}
std::string variability_markdown(const StepVariability& steps) {
  return pages(steps, grid_markdown);
}
std::string variability_csv(const StepVariability& steps) {
  return grid_csv(grid_of(steps));
}

std::string variability_json(const StepVariability& steps) {
  const Disturbance& by = steps.disturbance;
  nlohmann::ordered_json json{{"scenario", steps.path},
                              {"set", steps.overrides},
                              {"gpus", steps.undisturbed.gpus},
                              {"nodes", steps.nodes},
                              {"disturbance",
                               {{"preset", word(by.preset)},
                                {"fabric_share", by.fabric_share},
                                {"fabric_share_low", by.fabric_share_low},
                                {"fabric_share_high", by.fabric_share_high},
                                {"slow_nodes", by.slow_nodes},
                                {"slow_factor", by.slow_factor}}},
                              {"slow_chance", steps.slow_chance},
                              {"undisturbed_s", in_seconds(steps.undisturbed.step_time)},
                              {"p5_s", in_seconds(steps.p5)},
                              {"p50_s", in_seconds(steps.p50)},
                              {"p95_s", in_seconds(steps.p95)},
                              {"p99_s", in_seconds(steps.p99)},
                              {"mean_s", in_seconds(steps.mean)},
                              {"mean_by_fabric_s", in_seconds(steps.fabric_alone)},
                              {"mean_by_slow_nodes_s", in_seconds(steps.slow_alone)},
                              {"step_factor", steps.factor()}};
  if (by.occupancy > 0) {
    json["disturbance"]["occupancy"] = by.occupancy;
    json["mean_by_allocations_s"] = in_seconds(steps.allocation_alone);
  }
  return json.dump(2) + "\n";
}

}  // namespace sim
