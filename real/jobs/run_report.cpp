#include "real/jobs/run_report.hpp"

#include <algorithm>
#include <utility>

#include "real/calibrate/machine_facts.hpp"
#include "sim/base/table_text.hpp"
#include "sim/plan/sharding/flop_count.hpp"

namespace real {

namespace {

// The layout of those that trained the last step.
sim::Layout layout_at_end(sim::Layout layout, const TrainingRun& run) {
  if (run.lost.empty()) return layout;
  layout.data_parallel = run.lost.back().replicas;
  layout.global_batch = run.lost.back().global_batch;
  return layout;
}

// NcclUse of the rank whose communicators have the largest buffers, among the first of each stage.
NcclUse widest_use(const sim::Scenario& scenario, const sim::Plan& plan) {
  NcclUse widest;
  for (int stage = 0; stage < plan.layout.pipeline_parallel; ++stage) {
    const sim::RankId rank = sim::rank_of(plan.layout, {.pipeline = stage});
    const BoundProgram bound = bind(plan, scenario.model, rank);
    const NcclUse use = nccl_use(communicators_of(bound, {}), scenario.cluster);
    if (use.buffers >= widest.buffers) widest = use;
  }
  return widest;
}

}  // namespace

RunReport make_run_report(const sim::Scenario& scenario, const sim::Plan& plan,
                          const TrainingRun& run) {
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
                   .nccl = {},
                   .staleness = run.staleness,
                   .expert_loads = run.expert_loads.empty() ? std::vector<LayerLoad>{}
                                                            : run.expert_loads.back().layers,
                   .lost = run.lost,
                   .interrupted = run.interrupted};
  const std::vector<sim::Duration> times = run.counted_times();
  report.shortest = times.front();
  report.longest = times.back();
  report.median = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
  const double seconds = std::max(sim::in_seconds(report.median), 1e-12);
  const sim::Layout at_end = layout_at_end(plan.layout, run);
  report.tokens_per_second = static_cast<double>(plan.tokens * at_end.global_batch) /
                             static_cast<double>(plan.layout.global_batch) / seconds;
  const sim::AttentionCount count =
      scenario.flops.causal_half() ? sim::AttentionCount::causal_half : sim::AttentionCount::full;
  report.model_rate =
      sim::FlopRate::per_second(sim::model_flops(scenario.model, at_end, count).count() / seconds /
                                static_cast<double>(at_end.world_size()));
  std::vector<std::pair<sim::Breakdown, std::uint64_t>> parts;
  for (const sim::RankTrack& track : run.timeline.tracks)
    parts.emplace_back(sim::break_down(track, plan.program(track.rank), run.timeline.end,
                                       plan.layout.pipeline_parallel > 1),
                       1);
  if (!parts.empty()) report.breakdown = sim::weighted_mean(parts);
  for (std::size_t r = 0; r < run.memory.size(); ++r) {
    report.planned_arena = std::max(report.planned_arena, run.planned_arena[r]);
    report.used_arena = std::max(report.used_arena, run.memory[r].arena);
    report.device = std::max(report.device, run.memory[r].device);
  }
  if (run.backend == "cuda") report.nccl = widest_use(scenario, plan);
  return report;
}

}  // namespace real
