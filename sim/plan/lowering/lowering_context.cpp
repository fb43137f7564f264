#include "sim/plan/lowering/lowering_context.hpp"

#include <algorithm>
#include <utility>

#include "sim/plan/lowering/gradients_leave.hpp"

namespace sim::lowering {

// Where parameters lie on the host. With the optimizer alone DeepSpeed's stages 2 and 3 do so
// (runtime/zero/stage_1_and_2.py, copy_gradients_to_cpu; stage3.py, partition_grads); where ranks
// sum gradients further, not here.
bool gradients_leave(const Layout& layout, const Execution& runs) {
  if (layout.offloads_parameters()) return true;
  if (layout.shard_ranks() == 1 && layout.replicas() > 1) return false;
  return layout.offloads() && layout.offload_fraction == 1 && !layout.offload_delay &&
         layout.zero_stage >= 2 && runs.optimizer == OptimizerForm::deepspeed &&
         layout.pipeline_parallel == 1 && layout.tensor_parallel == 1 &&
         layout.compression == GradientCompression::none;
}

namespace {

// A copy shared by one rank is not sharded at all, unless its gradients leave.
DataSharing data_sharing(const ShardedModel& model) {
  const Layout& layout = model.layout;
  DataSharing sharing;
  sharing.gradient_dtype = summed_gradient_dtype(*model.model, layout);
  sharing.shards = layout.zero_stage > 0 ? layout.shard_ranks() : 1;
  if (model.model->has_experts()) {
    sharing.expert_copies = std::max(1, layout.expert_replicas());
    if (layout.zero_stage > 0) sharing.expert_shards = layout.expert_shards();
  }
  const bool shares = sharing.shards > 1 || sharing.expert_copies > 1;
  sharing.host_gradients = gradients_leave(layout, model.model->execution);
  sharing.zero = shares || layout.offloads_parameters() ? layout.zero_stage
                 : sharing.host_gradients               ? 2  // weights stay whole
                                                        : 0;
  sharing.converts = converts_gradients(*model.model, layout);
  sharing.holds = holds_units(*model.model, layout);
  sharing.keeps =
      sharing.holds && (layout.pipeline_parallel > 1 || model.model->execution.keeps_gathered);
  sharing.each_run = sharing.holds && layout.pipeline_parallel > 1 && layout.pipeline_runs > 1 &&
                     !model.model->execution.holds_over_runs;
  return sharing;
}

}  // namespace

LoweringContext::LoweringContext(const ShardedModel& sharded, const std::vector<Slot>& order,
                                 int of_stage)
    : model{sharded},
      layout{sharded.layout},
      runs{sharded.model->execution},
      slots{order},
      placement{layout},
      stage{of_stage},
      sharing{data_sharing(sharded)},
      builder{of_stage},
      tensors{builder} {
  StageBlocks made = stage_blocks(sharded, placement, order, of_stage);
  blocks = std::move(made.blocks);
  chunks = std::move(made.chunks);
  saved = made.saved;
}

bool LoweringContext::is_last_microbatch() const {
  const Slot& now = slots[slot];
  const int last = chunk_of(now).last_backward;
  return slots[static_cast<std::size_t>(last)].microbatch == now.microbatch;
}

bool LoweringContext::completes_gradients() const {
  if (!sharing.each_run) return is_last_microbatch();
  const Slot& now = slots[slot];
  const int last = slots[static_cast<std::size_t>(chunk_of(now).last_backward)].microbatch;
  return (last - now.microbatch) % layout.run_batches() == 0;
}

bool LoweringContext::begins_batch(std::size_t index) const {
  if (index == 0 || index >= slots.size()) return false;
  if (layout.pipeline_parallel > 1) return slot_of_run(index) == 0;
  return is_forward(slots[index]) && !is_forward(slots[index - 1]);
}

OpLabel LoweringContext::label(const char* name) {
  OpLabel made;
  made.name = builder.name(name);
  return made;
}

OpLabel LoweringContext::boundary_label(const char* name, const Chunk& chunk, int microbatch) {
  OpLabel made = label(name);
  made.chunk = chunk.global;
  made.microbatch = microbatch;
  return made;
}

std::uint32_t LoweringContext::memory_pass(std::int64_t bytes, OpKind kind, DType dtype,
                                           int launches) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = dtype;
  kernel.bytes = Bytes{bytes};
  kernel.launches = launches;
  return builder.kernel(kernel);
}

}  // namespace sim::lowering
