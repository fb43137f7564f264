#include "sim/plan/plan.hpp"

#include <cmath>
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
}

}  // namespace

Plan make_plan(const Model& model, const Layout& layout) {
  Plan plan;
  plan.layout = layout;
  if (layout.has_lengths())
    lower_lengths(model, plan);
  else
    plan.programs = lowered(model, layout, {}, every_stage);
  finish_plan(model, plan);
  return plan;
}

Plan plan_of_stage(const Model& model, const Layout& layout, int stage) {
  Plan plan;
  plan.layout = layout;
  plan.programs = lowered(model, layout, {}, [&](int one) { return one == stage; });
  finish_plan(model, plan);
  return plan;
}

void plan_other_stages(Plan& plan, const Model& model) {
  const int known = plan.programs.front().stage;
  std::vector<Program> all =
      lowered(model, plan.layout, {}, [&](int stage) { return stage != known; });
  all.insert(all.begin() + known, std::move(plan.programs.front()));
  plan.programs = std::move(all);
}

void place_ranks(Plan& plan, const Model& model, const Layout& layout) {
  plan.layout = layout;
  plan.program_of_rank.resize(static_cast<std::size_t>(layout.world_size()));
  for (std::uint32_t rank = 0; rank < plan.program_of_rank.size(); ++rank) {
    plan.program_of_rank[rank] =
        static_cast<std::uint32_t>(coordinates_of(layout, RankId{rank}).pipeline);
  }
  plan.groups.clear();
  make_groups(plan, {.tied_embedding = model.tied_embedding,
                     .maxima = shares_maxima(model.execution, layout),
                     .experts = model.has_experts()});
}

}  // namespace sim
