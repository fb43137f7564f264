// The passes of merged slots in Megatron-LM's order:
// core/models/common/model_chunk_schedule_plan.py, TransformerModelChunkSchedulePlan.run and
// TransformerLayerSchedulePlan.run (release 0.15).
#include <algorithm>

#include "sim/plan/lowering/stage_lowering.hpp"

namespace sim::lowering {
namespace {

// Blocks of the stage that a pass goes through: what stands before the layers, the layers, what
// stands behind. `end` is behind the last.
struct PassBlocks {
  std::uint32_t first = 0, layers = 0, behind = 0, end = 0;
  PassBlocks(const std::vector<StageBlock>& blocks, const Chunk& chunk)
      : first{chunk.first_block}, end{chunk.first_block + chunk.blocks} {
    layers = first;
    while (layers < end && blocks[layers].layer < 0 && !blocks[layers].is_output)
      ++layers;
    behind = layers;
    while (behind < end && blocks[behind].layer >= 0)
      ++behind;
  }
};

}  // namespace

// A pass of the slot `index`, and what has come for it.
Value StageLowering::begin_merged(std::size_t index) {
  context_.slot = index;
  messages_.begin_slot();
  messages_.wait_for_messages();
  return messages_.received(context_.slots[index]);
}

// The frame of a block whose weights are there. Megatron-FSDP gathers and reshards layer by layer
// in merged passes, too (Megatron-LM, pull request 3797).
Frame StageLowering::gathered(std::uint32_t at, int microbatch, Pass pass) {
  Frame made = frame(context_.blocks[at], microbatch, pass);
  weights_.prefetch(at, pass == Pass::forward ? +1 : -1);
  weights_.wait_for_weights(*made.block);
  return made;
}

Value StageLowering::forward_whole(std::uint32_t at, int microbatch, const Value& x) {
  Frame made = gathered(at, microbatch, Pass::forward);
  const Value out = forward_.forward_block(made, x);
  weights_.release_weights(*made.block, true);
  return out;
}

Value StageLowering::backward_whole(std::uint32_t at, int microbatch, const Value& gradient) {
  Frame made = gathered(at, microbatch, Pass::backward);
  const Value out = backward_.backward_block(made, gradient);
  weights_.release_weights(*made.block, false);
  return out;
}

void StageLowering::merged_layer(LayerForward* forward, LayerBackward* backward, Value& x,
                                 Value& gradient) {
  if (backward != nullptr) backward->combine();
  if (forward != nullptr) forward->attention();
  if (backward != nullptr) backward->experts();
  if (forward != nullptr) forward->dispatch();
  if (backward != nullptr) {
    backward->expert_weights();
    backward->dispatch();
  }
  if (forward != nullptr) {
    forward->experts();
    forward->combine();
  }
  if (backward != nullptr) gradient = backward->attention();
  if (forward != nullptr) x = forward->end();
}

void StageLowering::lower_merged(const MergedSlots& slots) {
  const Slot* forward = slots.forward ? &context_.slots[*slots.forward] : nullptr;
  const Slot* backward = slots.backward ? &context_.slots[*slots.backward] : nullptr;
  Value x, gradient;
  const bool forward_first =
      forward != nullptr && (!slots.backward || *slots.forward < *slots.backward);
  if (forward_first) x = begin_merged(*slots.forward);
  if (backward != nullptr) gradient = begin_merged(*slots.backward);
  if (forward != nullptr && !forward_first) x = begin_merged(*slots.forward);
  // Gradients are reduced by the slot of the backward pass.
  if (backward != nullptr) context_.slot = *slots.backward;

  std::optional<PassBlocks> of_forward, of_backward;
  if (forward != nullptr) of_forward.emplace(context_.blocks, context_.chunk_of(*forward));
  if (backward != nullptr) of_backward.emplace(context_.blocks, context_.chunk_of(*backward));
  if (forward != nullptr)
    for (std::uint32_t at = of_forward->first; at < of_forward->layers; ++at)
      x = forward_whole(at, forward->microbatch, x);
  if (backward != nullptr)
    for (std::uint32_t at = of_backward->end; at-- > of_backward->behind;)
      gradient = backward_whole(at, backward->microbatch, gradient);

  LayerForward ahead{tools_, parts_, forward_};
  LayerBackward back{tools_, parts_, backward_, context_.layout.delay_weight_gradients};
  const std::uint32_t forwards = forward == nullptr ? 0 : of_forward->behind - of_forward->layers;
  const std::uint32_t backwards =
      backward == nullptr ? 0 : of_backward->behind - of_backward->layers;
  for (std::uint32_t i = 0; i < std::max(forwards, backwards); ++i) {
    LayerForward* const goes = i < forwards ? &ahead : nullptr;
    LayerBackward* const comes = i < backwards ? &back : nullptr;
    const std::uint32_t forward_at = of_forward ? of_forward->layers + i : 0;
    const std::uint32_t backward_at = of_backward ? of_backward->behind - 1 - i : 0;
    if (goes != nullptr) goes->begin(gathered(forward_at, forward->microbatch, Pass::forward), x);
    if (comes != nullptr)
      comes->begin(gathered(backward_at, backward->microbatch, Pass::backward), gradient);
    merged_layer(goes, comes, x, gradient);
    // Megatron-LM issues the last ones behind the messages of the pass, which do not wait for them.
    if (comes != nullptr) comes->attention_weights();
    if (goes != nullptr) weights_.release_weights(context_.blocks[forward_at], true);
    if (comes != nullptr) weights_.release_weights(context_.blocks[backward_at], false);
  }
  end_merged(slots, x, gradient);
}

void StageLowering::end_merged(const MergedSlots& slots, Value x, Value gradient) {
  const Slot* forward = slots.forward ? &context_.slots[*slots.forward] : nullptr;
  const Slot* backward = slots.backward ? &context_.slots[*slots.backward] : nullptr;
  const bool to_loss =
      forward != nullptr && context_.chunk_of(*forward).global + 1 == context_.layout.chunks();
  const bool to_start = backward != nullptr && context_.chunk_of(*backward).global == 0;
  if (forward != nullptr && !to_loss) {
    context_.slot = *slots.forward;
    messages_.pass_on(*forward, x);
  }
  if (backward != nullptr && !to_start) {
    context_.slot = *slots.backward;
    messages_.pass_on(*backward, gradient);
  }
  if (backward != nullptr) context_.slot = *slots.backward;
  if (to_loss) {
    const PassBlocks blocks{context_.blocks, context_.chunk_of(*forward)};
    for (std::uint32_t at = blocks.behind; at < blocks.end; ++at)
      x = forward_whole(at, forward->microbatch, x);
    context_.tensors.drop(x, Role::output);
  }
  if (backward == nullptr) return;
  if (to_start) {
    const PassBlocks blocks{context_.blocks, context_.chunk_of(*backward)};
    for (std::uint32_t at = blocks.layers; at-- > blocks.first;)
      gradient = backward_whole(at, backward->microbatch, gradient);
    context_.tensors.drop(gradient, Role::input_gradient);
  }
  tools_.reduction.reduce_aligned();
  backward_.take_loss_metrics(context_.chunk_of(*backward));
}

}  // namespace sim::lowering
