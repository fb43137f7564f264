#include "sim/plan/block/recomputation.hpp"

#include <utility>

#include "sim/plan/sharding/selective_operators.hpp"

namespace sim::lowering {

Recomputation::Recomputation(BlockTools& tools, BlockForward& forward)
    : BlockPart{tools}, forward_{forward} {
  if (layout_.recompute != Recompute::full && layout_.recompute != Recompute::operators) return;
  checkpoints_.resize(context_.blocks.size() * static_cast<std::size_t>(layout_.micro_batches()));
  kept_outputs_.resize(checkpoints_.size(), BufferId{none});
}

void Recomputation::keep_input(const StageBlock& block, int microbatch, const Value& x) {
  checkpoints_[checkpoint_index(block, microbatch)] = x;
  tensors_.retain(x.buffer);
}

BufferId Recomputation::checkpoint_of(const StageBlock& block, int microbatch) const {
  if (checkpoints_.empty()) return BufferId{none};
  return checkpoints_[checkpoint_index(block, microbatch)].buffer;
}

// The operator added last, the residual sum at the end of the layer, is taken as their writer.
void Recomputation::keep_outputs(const StageBlock& block, int microbatch) {
  const Bytes bytes = model_.blocks[model_.block_for(block.shape, microbatch)].kept_outputs;
  if (bytes.count() == 0) return;
  BufferId& kept = kept_outputs_[checkpoint_index(block, microbatch)];
  kept = builder_.buffer(bytes, BufferCategory::activations);
  builder_.writes(kept, Role::saved);
}

void Recomputation::recompute_block(Frame again, int microbatch) {
  const StageBlock& block = *again.block;
  Value& checkpoint = checkpoints_[checkpoint_index(block, microbatch)];
  if (!checkpoint.exists()) return;  // the first block of the model has no input to keep
  std::swap(again.kept, kept_outputs_[checkpoint_index(block, microbatch)]);
  const bool may_end = layout_.recompute == Recompute::full || keeps_tensors(runs_, layout_);
  if (may_end && !block.is_output) {
    again.end = operators_run_again(*again.shape->block, runs_, layout_);
    again.ends_in_adapter = ends_in_adapter(*again.shape->block, again.end, runs_, layout_);
  }
  Value input = checkpoint;
  input.ready = OpId{none};  // its forward pass has read it: no need to wait again
  tensors_.drop(forward_.forward_block(again, input), Role::output);
  checkpoint = Value{};
}

std::uint32_t Recomputation::checkpoint_index(const StageBlock& block, int microbatch) const {
  const auto at = static_cast<std::uint32_t>(&block - context_.blocks.data());
  return at * static_cast<std::uint32_t>(layout_.micro_batches()) +
         static_cast<std::uint32_t>(microbatch);
}

}  // namespace sim::lowering
