#include "sim/plan/plan.hpp"

#include <cmath>

#include "sim/base/work.hpp"
#include "sim/plan/grid.hpp"
#include "sim/plan/lowering/stage_lowering.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace sim {

namespace {

std::vector<Program> lowered(const Model& model, const Layout& layout, const PipelineOrder& order,
                             const std::vector<MicroBatchLoad>& batches) {
  const ShardedModel sharded = shard(model, layout, batches);
  std::vector<Program> programs;
  programs.reserve(static_cast<std::size_t>(layout.pipeline_parallel));
  for (int stage = 0; stage < layout.pipeline_parallel; ++stage)
    programs.push_back(lowering::StageLowering{sharded, order, stage}.lower());
  return programs;
}

// A step of the replica for which the others wait.
void lower_lengths(const Model& model, const PipelineOrder& order, Plan& plan) {
  const Layout& layout = plan.layout;
  plan.loads = batch_loads(layout, attention_weight(model));
  plan.programs = lowered(model, layout, order, plan.loads->waited_for);
  if (layout.pads_rows())
    plan.longest =
        lowered(model, layout, order,
                std::vector<MicroBatchLoad>(
                    plan.loads->waited_for.size(),
                    {plan.loads->longest_row, static_cast<double>(plan.loads->longest_row)}));
}

}  // namespace

Plan make_plan(const Model& model, const Layout& layout) {
  Plan plan;
  plan.layout = layout;
  const PipelineOrder order = pipeline_order(layout);
  if (layout.has_lengths())
    lower_lengths(model, order, plan);
  else
    plan.programs = lowered(model, layout, order, {});
  for (const Program& program : plan.programs)
    count_work(Work::operators_planned, program.size());
  plan.program_of_rank.resize(static_cast<std::size_t>(layout.world_size()));
  for (std::uint32_t rank = 0; rank < plan.program_of_rank.size(); ++rank) {
    plan.program_of_rank[rank] =
        static_cast<std::uint32_t>(coordinates_of(layout, RankId{rank}).pipeline);
  }
  make_groups(plan, {.tied_embedding = model.tied_embedding,
                     .maxima = shares_maxima(model.execution, layout),
                     .experts = model.has_experts()});
  const BatchLoads* loads = plan.loads ? &*plan.loads : nullptr;
  plan.model_flops = model_flops(model, layout, AttentionCount::full, loads);
  plan.hardware_flops = hardware_flops(model, layout, AttentionCount::full, loads);
  plan.tokens = layout.global_batch * (model.is_layer_list ? 1 : layout.sequence_length);
  if (loads != nullptr)
    plan.tokens = std::llround(static_cast<double>(layout.global_batch) * loads->real_tokens);
  plan.parameters = model.parameters();
  plan.caching_allocator = model.execution.caching_allocator;
  return plan;
}

}  // namespace sim
