#include "sim/plan/block/loss_forward.hpp"

#include <algorithm>

namespace sim::lowering {

// Tensors that the loss keeps: the exponentials, as fp32, in the place of fp32 logits or else in a
// buffer of their own while the logits end here; and two numbers per token.
void LossForward::keep_loss(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  Saved& saved = frame.saved[i];
  const bool in_place = layout_.activation_dtype == DType::fp32 && x.bytes == op.saved;
  if (in_place) {
    saved.extra = x.buffer;
  } else {
    const int held = runs_.held_logits;
    if (held > 0 || op.op->in_place) {
      tensors_.read(x, Role::input);
      saved.input = x.buffer;
    } else {
      tensors_.drop(x, Role::input);
    }
    if (held > 1) {
      saved.output = tensors_.allocate_buffer(x.bytes * (held - 1));
      builder_.writes(saved.output, Role::output);
    }
    if (op.saved.count() > 0) saved.extra = tensors_.allocate_buffer(op.saved);
  }
  if (saved.extra.value != none) builder_.writes(saved.extra, Role::saved);
  const Bytes per_token{4 * op.forward->m};
  saved.target_logit = tensors_.allocate_buffer(per_token);
  saved.exponential_sum = tensors_.allocate_buffer(per_token);
  builder_.writes(saved.target_logit, Role::target_logit);
  builder_.writes(saved.exponential_sum, Role::exponential_sum);
}

// Vocabulary-parallel loss (Megatron-LM, core/tensor_parallel/cross_entropy.py): the local maximum
// is reduced before the exponentials are taken; then the target's logit and their sum.
Value LossForward::forward_loss(Frame& frame, std::size_t i, Value x) {
  const OpWork& work = frame.work->ops[i];
  const Kernel& whole = *frame.shape->ops[i].forward;
  tensors_.wait_for(x);
  if (work.loss_maximum == none) {
    emit_.compute(frame, i, work.forward, work.name, Action::forward);
    keep_loss(frame, i, x);
    return {};
  }
  Kernel first = whole;
  first.bytes = Bytes{std::min(x.bytes.count(), whole.bytes.count())};
  Kernel rest = whole;
  rest.bytes = whole.bytes - first.bytes;
  const Value maximum = tensors_.allocate(Bytes{4 * whole.m});
  emit_.compute(frame, i, builder_.kernel(first), work.name, Action::loss_maximum);
  tensors_.read(x, Role::input);
  builder_.writes(maximum.buffer, Role::maximum);
  const OpId reduced =
      emit_.tensor_collective(frame, i, work.loss_maximum, work.sum_name, Action::reduce_maximum);
  builder_.writes(maximum.buffer, Role::output);
  builder_.wait(Stream::compute, reduced);
  emit_.compute(frame, i, builder_.kernel(rest), work.name, Action::loss_exponentials);
  // Kept logits are read again, less their maximum.
  if (frame.shape->ops[i].saved.count() > 0) {
    tensors_.drop(maximum, Role::maximum);
  } else {
    tensors_.read(maximum, Role::maximum);
    frame.saved[i].maximum = maximum.buffer;
  }
  keep_loss(frame, i, x);
  emit_.tensor_collective(frame, i, work.loss_sum, work.sum_name, Action::reduce_sum);
  builder_.writes(frame.saved[i].target_logit, Role::output);
  const OpId summed =
      emit_.tensor_collective(frame, i, work.loss_sum, work.sum_name, Action::reduce_sum);
  builder_.writes(frame.saved[i].exponential_sum, Role::output);
  builder_.wait(Stream::compute, summed);
  return {};
}

}  // namespace sim::lowering
