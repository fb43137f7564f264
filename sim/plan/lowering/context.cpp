// Attention over context-parallel ranks, each of which holds sequence_length / c tokens: chunks i
// and 2c - 1 - i of 2c, so that a causal mask leaves all of them the same work.
//
// Ring (Liu et al. 2023, "Ring Attention with Blockwise Transformers"; Transformer Engine,
// pytorch/attention/dot_product_attention/context_parallel.py, AttnFuncWithCPAndKVP2P): c steps.
// Keys and values of the next step come in beside the attention of this one; its output is merged
// into that of the steps before by their log-sum-exps. Backward the ring turns the other way, from
// the slice that came last to the rank's own, and the gradient of a slice travels one step behind.
//
// All-gather (Llama 3, section 3.3.2; the same file, AttnFuncWithCPAndKVAllGather): keys and values
// are gathered before the attention, again before its backward pass, and their gradients
// reduce-scattered behind it. Nothing runs beside.
//
// PyTorch's context_parallel goes slice by slice in either: context_pytorch.cpp. All-to-all:
// context_heads.cpp.
#include "sim/plan/lowering/context.hpp"

namespace sim::lowering {

void ContextParallelAttention::intern_context(const ShardedOp& op, ContextWork& work) {
  const ContextAttention& context = *op.context;
  const std::string& name = op.op->name;
  const auto make = [&](CollectiveKind kind, Bytes bytes) {
    return builder_.collective({kind, GroupRole::context, layout_.activation_dtype, bytes});
  };
  if (!context.parts.empty()) return heads_.intern_heads(op, work);
  if (steps_.form() != ContextForm::transformer_engine)
    return pytorch_.intern_pytorch_context(op, work);
  if (layout_.context_exchange == ContextExchange::all_gather) {
    const Bytes whole = context.slice * layout_.context_parallel;
    work.exchange_name = builder_.name(name + ".all_gather");
    work.scatter_name = builder_.name(name + ".reduce_scatter");
    work.gather = make(CollectiveKind::all_gather, whole);
    work.scatter = make(CollectiveKind::reduce_scatter, whole);
    return;
  }
  work.exchange_name = builder_.name(name + ".ring_shift");
  work.slice_name = builder_.name(name + ".slice");
  work.merge_name = builder_.name(name + ".merge");
  work.shift = make(CollectiveKind::ring_shift, context.slice);
  if (layout_.context_parallel > 2)
    work.shift_both = make(CollectiveKind::ring_shift, context.slice * 2);
  steps_.intern_slices(context, work);
}

Value ContextParallelAttention::forward_context(Frame& frame, std::size_t i, Value x) {
  tensors_.wait_for(x);
  if (frame.work->ops[i].context.by_heads()) return heads_.forward_heads(frame, i, x);
  if (x.ready.value != none) builder_.wait(Stream::context_comm, x.ready);
  if (layout_.context_exchange == ContextExchange::ring) return forward_ring(frame, i, x);
  if (steps_.gathers_slices()) return pytorch_.forward_gathered(frame, i, x);
  const OpWork& work = frame.work->ops[i];
  const Value keys = steps_.gather_keys(frame, i, x.buffer);
  tensors_.wait_for(keys);
  Value out = tensors_.allocate(frame.shape->ops[i].output);
  out.ready = emit_.compute(frame, i, work.forward, work.name, Action::forward);
  tensors_.drop(keys, Role::keys);
  kept_.keep_or_free(frame, i, x);
  builder_.writes(out.buffer, Role::output);
  kept_.keep_output(frame, i, out);
  return out;
}

// A slice is sent on once the attention of two steps before is done, whose buffer then takes the
// next: two are under way.
Value ContextParallelAttention::forward_ring(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const ContextWork& ring = frame.work->ops[i].context;
  const int steps = layout_.context_parallel;
  const Value log_sum_exp = tensors_.allocate(op.attention_saved);
  builder_.wait_for_stream(Stream::context_comm, Stream::compute);
  Value slice, next, out;
  OpId one_before{none}, two_before{none};
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      if (two_before.value != none) builder_.wait(Stream::context_comm, two_before);
      next = tensors_.allocate(op.context->slice);
      next.ready = steps_.exchange(frame, i, ring.shift, Action::shift_keys);
      tensors_.read(step == 0 ? x : slice, Role::input);
      builder_.writes(next.buffer, Role::output);
      steps_.wait_in_graph(next.ready);
    }
    if (step == 0) {
      out = steps_.attend_own(frame, i, x, log_sum_exp);
    } else {
      steps_.attend_slice(frame, i, x, slice, out, log_sum_exp, step);
    }
    slice = next;
    two_before = one_before;
    one_before = builder_.last(Stream::compute);
  }
  out.ready = one_before;
  kept_.keep_output(frame, i, out);
  return out;
}

Value ContextParallelAttention::backward_context(Frame& frame, std::size_t i, Value gradient) {
  tensors_.wait_for(gradient);
  if (frame.work->ops[i].context.by_heads()) return heads_.backward_heads(frame, i, gradient);
  if (steps_.form() != ContextForm::transformer_engine)
    return pytorch_.backward_pytorch(frame, i, gradient);
  if (layout_.context_exchange == ContextExchange::ring) return backward_ring(frame, i, gradient);
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  const Value keys = steps_.gather_keys(frame, i, frame.saved[i].input);
  tensors_.wait_for(keys);
  Value out = tensors_.allocate(op.input);
  const Value keys_gradient = tensors_.allocate(keys.bytes);
  emit_.compute(frame, i, work.backward, work.name, Action::backward);
  tensors_.drop(gradient, Role::gradient);
  tensors_.drop(keys, Role::keys);
  kept_.free_saved(frame.saved[i]);
  builder_.writes(out.buffer, Role::input_gradient);
  builder_.writes(keys_gradient.buffer, Role::keys_gradient);
  builder_.wait_for_stream(Stream::context_comm, Stream::compute);
  out.ready = steps_.exchange(frame, i, work.context.scatter, Action::scatter_keys_gradient);
  tensors_.drop(keys_gradient, Role::keys_gradient);
  builder_.writes(out.buffer, Role::output);
  return out;
}

// Step by step: the slice goes on, and with it the gradient that the step before has added to;
// beside them the attention; then what it gives is added to the gradient that has come.
Value ContextParallelAttention::backward_ring(Frame& frame, std::size_t i, Value gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const ContextWork& ring = frame.work->ops[i].context;
  const int steps = layout_.context_parallel;
  Value out = tensors_.allocate(op.input);
  Value slice, keys_gradient;
  std::swap(slice.buffer, frame.saved[i].keys);
  for (int step = 0; step < steps; ++step) {
    const bool last = step + 1 == steps;
    const bool both = !last && step > 0;
    builder_.wait_for_stream(Stream::context_comm, Stream::compute);
    const OpId sent = steps_.exchange(frame, i, both ? ring.shift_both : ring.shift,
                                      step > 0 ? Action::shift_gradients : Action::shift_keys);
    Value next;
    if (!last) {
      next = tensors_.allocate(op.context->slice);
      next.ready = sent;
      tensors_.read(slice, Role::input);
      builder_.writes(next.buffer, Role::output);
    }
    if (step > 0) {
      tensors_.drop(keys_gradient, Role::keys_gradient);
      keys_gradient = tensors_.allocate(op.context->slice);
      keys_gradient.ready = sent;
      builder_.writes(keys_gradient.buffer, Role::input_gradient);
    }
    const Value part = steps_.attend_backward(frame, i, gradient, slice, last);
    steps_.merge_gradients(frame, i, part, out, keys_gradient, last);
    slice = next;
  }
  out.ready = builder_.last(Stream::compute);
  return out;
}

}  // namespace sim::lowering
