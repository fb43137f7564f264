#include "sim/plan/plan.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/base/work.hpp"
#include "sim/plan/grid.hpp"
#include "sim/plan/lowering/stage_lowering.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace sim {

namespace {

// The programs of the stages that `is_asked` is true for.
template <class IsAsked>
std::vector<Program> lowered(const Model& model, const Layout& layout,
                             const std::vector<MicroBatchLoad>& batches, const IsAsked& is_asked) {
  const PipelineOrder order = pipeline_order(layout);
  const ShardedModel sharded = shard(model, layout, batches);
  std::vector<Program> programs;
  programs.reserve(static_cast<std::size_t>(layout.pipeline_parallel));
  for (int stage = 0; stage < layout.pipeline_parallel; ++stage) {
    if (!is_asked(stage)) continue;
    programs.push_back(lowering::StageLowering{sharded, order, stage}.lower());
    count_work(Work::operators_planned, programs.back().size());
  }
  return programs;
}

bool every_stage(int) {
  return true;
}

// The different numbers of micro-batches of replicas, ascending.
std::vector<int> replica_kinds(const Layout& layout) {
  const std::set<int> kinds(layout.replica_batches.begin(), layout.replica_batches.end());
  return {kinds.begin(), kinds.end()};
}

// The programs of all stages for each kind of replica, one kind after another.
template <class IsAsked>
std::vector<Program> lowered_replicas(const Model& model, const Layout& layout,
                                      const IsAsked& is_asked) {
  if (layout.replica_batches.empty()) return lowered(model, layout, {}, is_asked);
  std::vector<Program> programs;
  for (const int batches : replica_kinds(layout))
    for (Program& program : lowered(model, layout.with_even_batches(batches), {}, is_asked))
      programs.push_back(std::move(program));
  return programs;
}

// A step of the replica for which the others wait.
void lower_lengths(const Model& model, Plan& plan) {
  const Layout& layout = plan.layout;
  plan.loads = batch_loads(layout, attention_weight(model));
  plan.programs = lowered(model, layout, plan.loads->waited_for, every_stage);
  if (layout.pads_rows())
    plan.longest =
        lowered(model, layout,
                std::vector<MicroBatchLoad>(
                    plan.loads->waited_for.size(),
                    {plan.loads->longest_row, static_cast<double>(plan.loads->longest_row)}),
                every_stage);
}

// All but its programs.
void finish_plan(const Model& model, Plan& plan) {
  const Layout& layout = plan.layout;
  place_ranks(plan, model, layout);
  const BatchLoads* loads = plan.loads ? &*plan.loads : nullptr;
  plan.model_flops = model_flops(model, layout, AttentionCount::full, loads);
  plan.hardware_flops = hardware_flops(model, layout, AttentionCount::full, loads);
  plan.tokens = layout.global_batch * (model.is_layer_list ? 1 : layout.sequence_length);
  if (loads != nullptr)
    plan.tokens = std::llround(static_cast<double>(layout.global_batch) * loads->real_tokens);
  plan.parameters = model.parameters();
  plan.caching_allocator = model.execution.caching_allocator;
  plan.workspaces = model.execution.workspaces;
}

}  // namespace

Plan make_plan(const Model& model, const Layout& layout) {
  Plan plan;
  plan.layout = layout;
  if (layout.has_lengths())
    lower_lengths(model, plan);
  else
    plan.programs = lowered_replicas(model, layout, every_stage);
  finish_plan(model, plan);
  return plan;
}

Plan plan_of_stage(const Model& model, const Layout& layout, int stage) {
  Plan plan;
  plan.layout = layout;
  plan.programs = lowered_replicas(model, layout, [&](int one) { return one == stage; });
  finish_plan(model, plan);
  return plan;
}

void plan_other_stages(Plan& plan, const Model& model) {
  const int known = plan.programs.front().stage;
  if (!plan.layout.replica_batches.empty()) {
    plan.programs = lowered_replicas(model, plan.layout, every_stage);
    return;
  }
  std::vector<Program> all =
      lowered(model, plan.layout, {}, [&](int stage) { return stage != known; });
  all.insert(all.begin() + known, std::move(plan.programs.front()));
  plan.programs = std::move(all);
}

void place_ranks(Plan& plan, const Model& model, const Layout& layout) {
  plan.layout = layout;
  plan.program_of_rank.resize(static_cast<std::size_t>(layout.world_size()));
  const std::vector<int> kinds = replica_kinds(layout);
  for (std::uint32_t rank = 0; rank < plan.program_of_rank.size(); ++rank) {
    const RankCoordinates at = coordinates_of(layout, RankId{rank});
    const auto kind = kinds.empty()
                          ? kinds.begin()
                          : std::find(kinds.begin(), kinds.end(),
                                      layout.replica_batches[static_cast<std::size_t>(at.data)]);
    plan.program_of_rank[rank] =
        static_cast<std::uint32_t>((kind - kinds.begin()) * layout.pipeline_parallel + at.pipeline);
  }
  plan.groups.clear();
  make_groups(plan, {.tied_embedding = model.tied_embedding,
                     .maxima = shares_maxima(model.execution, layout),
                     .experts = model.has_experts()});
}

}  // namespace sim
