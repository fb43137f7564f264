#include "sim/plan/lowering/lowering_context.hpp"

#include <algorithm>
#include <utility>

namespace sim::lowering {
namespace {

// A copy shared by one rank is not sharded at all.
DataSharing data_sharing(const ShardedModel& model) {
  const Layout& layout = model.layout;
  DataSharing sharing;
  sharing.gradient_dtype = summed_gradient_dtype(*model.model, layout);
  sharing.shards = layout.zero_stage > 0 ? layout.shard_ranks() : 1;
  if (model.model->has_experts()) sharing.expert_copies = std::max(1, layout.expert_replicas());
  sharing.zero = sharing.shards > 1 || sharing.expert_copies > 1 ? layout.zero_stage : 0;
  sharing.converts = converts_gradients(*model.model, layout);
  sharing.holds = holds_units(*model.model, layout);
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
