#include "sim/economics/strategies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/input_error.hpp"
#include "sim/base/rounding.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/scenario/write_scenario.hpp"

namespace sim {
namespace {

Seconds transfer(Bytes bytes, Bandwidth rate) {
  return Seconds{static_cast<double>(bytes.count()) / rate.in_bytes_per_second()};
}

// The layout without `nodes` nodes that each belong to other replicas.
Layout smaller(const Scenario& scenario, int nodes, Scaling batch) {
  Layout layout = scenario.layout;
  const int of_replica = layout.world_size() / layout.data_parallel;
  const int lost = nodes * std::max(1, scenario.cluster.gpus_per_node() / of_replica);
  const std::int64_t per_replica = layout.global_batch / layout.data_parallel;
  layout.data_parallel = std::max(0, layout.data_parallel - lost);
  const std::int64_t unit = layout.micro_batch * layout.data_parallel;
  if (unit == 0) return layout;
  // A kept batch is not always a multiple of the replicas: the step is that of those with the most.
  layout.global_batch = batch == Scaling::fixed_batch ? divide_up(layout.global_batch, unit) * unit
                                                      : per_replica * layout.data_parallel;
  return layout;
}

// The scenario as a job of another layout, on as many nodes as that needs.
Scenario with_layout(const Scenario& scenario, const Layout& layout) {
  const int gpus = layout.world_size();
  return load_scenario(ScenarioSources::of_text(
      scenario_yaml(scenario, {}), "scenario.yaml",
      {fmt::format("layout.data_parallel={}", layout.data_parallel),
       fmt::format("layout.global_batch={}", layout.global_batch),
       fmt::format("cluster.nodes={}", divide_up(gpus, scenario.cluster.gpus_per_node())),
       fmt::format("cluster.gpus={}", gpus)}));
}

Duration step_of(const Scenario& scenario, const Control& control) {
  Forecaster forecaster;
  return forecaster.run(scenario, {}, control).report.step_time;
}

}  // namespace

CopyTimes copy_times(const CheckpointSize& size, const MemoryRules& rules, Seconds step) {
  if (rules.place == MemoryPlace::none) return {};
  CopyTimes times;
  const Seconds copy = transfer(size.per_gpu, rules.copy);
  times.lag = copy + (rules.place == MemoryPlace::peer ? transfer(size.per_node, rules.network)
                                                       : Seconds{0});
  times.stall = rules.overhead + std::max(Seconds{0}, copy - step);
  // Every rank gets what it holds from the hosts that have it.
  times.load = transfer(size.held_per_node, rules.network);
  const auto least =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(times.lag / step - 1e-9)));
  times.every = rules.every.value_or(least);
  if (times.every < least)
    throw InputError{SourcePosition{"budget", 0, 0},
                     fmt::format("memory_checkpoint.every: a copy takes {:.3g} s and a step {:.3g} "
                                 "s: at least {} steps",
                                 times.lag.count(), step.count(), least)};
  return times;
}

void add_memory_tier(const CopyTimes& times, MemoryPlace place, const RestartTimes& restart,
                     Seconds storage_load, Seconds step, int nodes, RunModel& run) {
  if (times.every == 0) return;
  const Seconds between = step * static_cast<double>(times.every);
  const double parts = std::floor(run.segment() / between * (1 + 1e-12));
  const Seconds load = restart.load.value_or(storage_load);
  run.stall = times.stall;
  run.memory = {.per_segment = std::max<std::int64_t>(1, static_cast<std::int64_t>(parts)),
                .lag = times.lag,
                .saved = std::max(Seconds{0}, load - times.load),
                .survives_software = true,
                .survives_node = place == MemoryPlace::peer && nodes > 1,
                .second_is_partner = nodes > 1 ? 1.0 / (nodes - 1) : 0};
}

void add_pool(const Budget& budget, std::vector<double> speeds, RunModel& run) {
  if (!budget.spares.nodes) return;
  run.pool = {.limited = true,
              .spares = *budget.spares.nodes,
              .repair = budget.spares.repair,
              .speeds = std::move(speeds),
              .resize = budget.elastic.resize};
}

void add_corruption(const CorruptionRules& rules, int gpus, RunModel& run) {
  if (rules.gpu == never) return;
  const Seconds every = rules.gpu / gpus;
  if (rules.share > 0) {
    // It is found within the step, and then is a failure of a node.
    const double before = 1 / run.failures.every.count(), rate = before + 1 / every.count();
    run.software *= before / rate;
    run.failures.every = Seconds{1 / rate};
    run.corruption.share = rules.share;
    return;
  }
  const double apart = std::round(rules.check_every / run.segment());
  run.corruption = {.every = every,
                    .segments_per_check = static_cast<std::int64_t>(
                        std::clamp(apart, 1.0, static_cast<double>(run.segments))),
                    .check = rules.check,
                    .restart = run.failures.restart};
}

std::vector<double> elastic_speeds(const Scenario& scenario, const ElasticRules& rules,
                                   const Control& control) {
  std::vector<double> speeds;
  if (rules.most_away == 0) return speeds;
  const double whole = to_seconds(step_of(scenario, control));
  for (int nodes = 1; nodes <= rules.most_away; ++nodes) {
    const Layout layout = smaller(scenario, nodes, rules.batch);
    const auto refuse = [&](const std::string& why) {
      throw InputError{
          SourcePosition{"budget", 0, 0},
          fmt::format("elastic.nodes: without {} node{} the job cannot go on: {}{}", nodes,
                      nodes == 1 ? "" : "s", why,
                      rules.batch == Scaling::fixed_batch
                          ? "; elastic.batch: fixed_batch_per_replica keeps the batch of "
                            "a replica"
                          : "")};
    };
    if (layout.data_parallel < 1) refuse("no replica is left");
    if (const auto problems = layout_problems(layout, scenario.model); !problems.empty())
      refuse(problems.front().what);
    const double kept = rules.batch == Scaling::fixed_batch
                            ? 1
                            : static_cast<double>(layout.global_batch) /
                                  static_cast<double>(scenario.layout.global_batch);
    speeds.push_back(kept * whole / to_seconds(step_of(with_layout(scenario, layout), control)));
  }
  return speeds;
}

}  // namespace sim
