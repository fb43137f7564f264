#include "sim/plan/plan.hpp"

#include "sim/plan/grid.hpp"
#include "sim/plan/lowering/stage_lowering.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/flop_count.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace sim {

Plan make_plan(const Model& model, const Layout& layout) {
  Plan plan;
  plan.layout = layout;
  const ShardedModel sharded = shard(model, layout);
  plan.programs.reserve(static_cast<std::size_t>(layout.pipeline_parallel));
  const PipelineOrder order = pipeline_order(layout);
  for (int stage = 0; stage < layout.pipeline_parallel; ++stage) {
    plan.programs.push_back(lowering::StageLowering{sharded, order, stage}.lower());
  }
  plan.program_of_rank.resize(static_cast<std::size_t>(layout.world_size()));
  for (std::uint32_t rank = 0; rank < plan.program_of_rank.size(); ++rank) {
    plan.program_of_rank[rank] =
        static_cast<std::uint32_t>(coordinates_of(layout, RankId{rank}).pipeline);
  }
  make_groups(plan, {.tied_embedding = model.tied_embedding,
                     .maxima = shares_maxima(model.execution, layout),
                     .experts = model.has_experts()});
  plan.model_flops = model_flops(model, layout, AttentionCount::full);
  plan.hardware_flops = hardware_flops(model, layout, AttentionCount::full);
  plan.tokens = layout.global_batch * (model.is_layer_list ? 1 : layout.sequence_length);
  plan.parameters = model.parameters();
  plan.caching_allocator = model.execution.caching_allocator;
  return plan;
}

}  // namespace sim
