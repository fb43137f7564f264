#include "sim/plan/block/merged_passes.hpp"

#include <utility>

namespace sim::lowering {

// Megatron-LM, core/pipeline_parallel/combined_1f1b.py. Without pipelining a backward pass is
// merged with the forward pass of the next micro-batch; with the interleaved schedule a forward
// pass with the backward pass that follows it between warm-up and flush.
MergedSlots merged_slots(const LoweringContext& context, std::size_t index) {
  const std::vector<Slot>& slots = context.slots;
  const Slot& first = slots[index];
  const bool pipelined = context.layout.pipeline_parallel > 1;
  MergedSlots made;
  (is_forward(first) ? made.forward : made.backward) = index;
  if (index + 1 == slots.size()) return made;
  const Slot& second = slots[index + 1];
  const bool pair = pipelined ? is_forward(first) && !is_forward(second)
                              : !is_forward(first) && is_forward(second);
  const bool warm = pipelined && static_cast<int>(context.slot_of_run(index)) <
                                     interleaved_warmup(context.layout, context.stage);
  if (!pair || warm) return made;
  // The gradient of the last chunk starts from its own output.
  const bool turns = context.chunk_of(first).global + 1 == context.layout.chunks() &&
                     first.chunk == second.chunk && first.microbatch == second.microbatch;
  if (turns) return made;
  (is_forward(second) ? made.forward : made.backward) = index + 1;
  return made;
}

void LayerForward::begin(const Frame& frame, const Value& x) {
  frame_ = frame;
  at_ = OperatorParts::places(frame_);
  x_ = x;
  shared_ = {};
}

// Shared experts lie in this part, too.
void LayerForward::attention() {
  x_ = passes_.forward_ops(frame_, x_, {0, at_.dispatch});
  if (!at_.exchanges) return;
  if (at_.has_shared()) shared_ = passes_.forward_ops(frame_, x_, {at_.shared, at_.shared_sum});
  x_ = parts_.experts.leave_for_experts(frame_, at_.dispatch, x_);
}

void LayerForward::dispatch() {
  if (at_.exchanges) x_ = parts_.experts.exchange_to_experts(frame_, at_.dispatch, x_);
}

void LayerForward::experts() {
  if (!at_.exchanges) {
    x_ = passes_.forward_ops(frame_, x_, {at_.dispatch, at_.end});
    return;
  }
  x_ = parts_.experts.arrive_at_experts(frame_, at_.dispatch, x_);
  x_ = passes_.forward_ops(frame_, x_, {at_.dispatch + 1, at_.combine});
  x_ = parts_.experts.leave_experts(frame_, at_.combine, x_);
}

void LayerForward::combine() {
  if (at_.exchanges) x_ = parts_.experts.exchange_from_experts(frame_, at_.combine, x_);
}

// Megatron-LM runs these few kernels on the stream of the exchange, behind it.
Value LayerForward::end() {
  if (!at_.exchanges) return x_;
  x_ = parts_.experts.arrive_from_experts(frame_, at_.combine, x_);
  if (!at_.has_shared()) return passes_.forward_ops(frame_, x_, {at_.combine + 1, at_.end});
  branches_.past[at_.shared] = x_;
  return passes_.forward_ops(frame_, shared_, {at_.shared_sum, at_.end});
}

void LayerBackward::begin(const Frame& frame, const Value& gradient) {
  frame_ = frame;
  at_ = OperatorParts::places(frame_);
  x_ = gradient;
  shared_ = {};
}

void LayerBackward::combine() {
  if (!at_.exchanges) return;
  const std::size_t first = at_.has_shared() ? at_.shared_sum : at_.combine + 1;
  x_ = passes_.backward_ops(frame_, x_, {first, at_.end});
  if (at_.has_shared()) {
    shared_ = x_;
    x_ = std::exchange(branches_.gradient_past[at_.shared], {});
  }
  x_ = parts_.experts.exchange_to_experts(
      frame_, at_.combine, parts_.experts.leave_for_experts(frame_, at_.combine, x_));
}

void LayerBackward::experts() {
  if (!at_.exchanges) {
    x_ = passes_.backward_ops(frame_, x_, {at_.dispatch, at_.end});
    return;
  }
  x_ = parts_.experts.arrive_at_experts(frame_, at_.combine, x_);
  x_ = passes_.backward_ops(frame_, x_, {at_.dispatch + 1, at_.combine});
  x_ = parts_.experts.leave_experts(frame_, at_.dispatch, x_);
}

void LayerBackward::expert_weights() {
  if (delays_)
    passes_.deferred_weight_gradients(frame_, at_.exchanges ? OpRange{at_.dispatch, at_.combine}
                                                            : OpRange{at_.dispatch, at_.end});
}

void LayerBackward::dispatch() {
  if (at_.exchanges) x_ = parts_.experts.exchange_from_experts(frame_, at_.dispatch, x_);
}

Value LayerBackward::attention() {
  if (at_.has_shared()) passes_.backward_ops(frame_, shared_, {at_.shared, at_.shared_sum});
  if (at_.exchanges) x_ = parts_.experts.arrive_from_experts(frame_, at_.dispatch, x_);
  return passes_.backward_ops(frame_, x_, {0, at_.dispatch});
}

void LayerBackward::attention_weights() {
  if (!delays_) return;
  if (at_.has_shared()) passes_.deferred_weight_gradients(frame_, {at_.shared, at_.shared_sum});
  passes_.deferred_weight_gradients(frame_, {0, at_.dispatch});
}

}  // namespace sim::lowering
