// Attention over context-parallel ranks as PyTorch's context_parallel has it
// (torch/distributed/tensor/experimental/_attention.py of 2.6, _templated_ring_attention and
// _templated_ring_attention_backward, with load balancing).
//
// Forward, slices come one by one round a ring (rotate method alltoall), or all are gathered beside
// the attention of the rank's own (allgather, the default), and either way the attention goes slice
// by slice. Backward, slices come the same way again, beginning with the rank's own; the gradient
// of a slice travels with them in fp32 (convert_to_f32), c times: the last time it comes home.
//
// In a compiled layer every exchange is waited for where it is issued: a functional collective that
// is traced is followed by its wait (torch/distributed/_functional_collectives.py,
// _maybe_wrap_tensor), and Inductor moves waits only where it is told to
// (reorder_for_compute_comm_overlap, off by default).
#include "sim/plan/lowering/context_pytorch.hpp"

namespace sim::lowering {

void PyTorchContext::intern_pytorch_context(const ShardedOp& op, ContextWork& work) {
  const ContextAttention& context = *op.context;
  const std::string& name = op.op->name;
  const auto make = [&](CollectiveKind kind, DType dtype, Bytes bytes) {
    return builder_.collective({kind, GroupRole::context, dtype, bytes});
  };
  work.slice_name = builder_.name(name + ".slice");
  work.merge_name = builder_.name(name + ".merge");
  work.scatter_name = builder_.name(name + ".ring_shift");
  if (steps_.gathers_slices()) {
    work.exchange_name = builder_.name(name + ".all_gather");
    work.gather = make(CollectiveKind::all_gather, layout_.activation_dtype,
                       context.slice * layout_.context_parallel);
  } else {
    work.exchange_name = work.scatter_name;
    work.shift = make(CollectiveKind::ring_shift, layout_.activation_dtype, context.slice);
  }
  work.shift_gradient = make(CollectiveKind::ring_shift, DType::fp32, context.gradient_slice);
  steps_.intern_slices(context, work);
}

Value PyTorchContext::forward_gathered(Frame& frame, std::size_t i, Value x) {
  const Value log_sum_exp = tensors_.allocate(frame.shape->ops[i].attention_saved);
  const Value keys = steps_.gather_keys(frame, i, x.buffer);
  steps_.wait_in_graph(keys.ready);
  Value out = steps_.attend_own(frame, i, x, log_sum_exp);
  for (int step = 1; step < layout_.context_parallel; ++step) {
    if (step + 1 < layout_.context_parallel) tensors_.retain(keys.buffer);
    steps_.attend_slice(frame, i, x, keys, out, log_sum_exp, step);
  }
  out.ready = builder_.last(Stream::compute);
  kept_.keep_output(frame, i, out);
  return out;
}

Value PyTorchContext::backward_pytorch(Frame& frame, std::size_t i, Value gradient) {
  const int steps = layout_.context_parallel;
  Value out = tensors_.allocate(frame.shape->ops[i].input);
  Value slice, next, sum;
  for (int step = 0; step < steps; ++step) {
    const bool last = step + 1 == steps;
    if (steps_.gathers_slices() ? step == 0 : !last) next = next_slice(frame, i, slice);
    if (steps_.gathers_slices() && step > 0 && !last) tensors_.retain(slice.buffer);
    const Value part = step == 0 ? own_gradients(frame, i, gradient)
                                 : steps_.attend_backward(frame, i, gradient, slice, last);
    steps_.merge_gradients(frame, i, part, out, sum, false);
    sum = send_gradients(frame, i, sum, out, last);
    slice = next;
  }
  return out;
}

// Of the rank's own block of scores.
Value PyTorchContext::own_gradients(const Frame& frame, std::size_t i, const Value& gradient) {
  const OpWork& work = frame.work->ops[i];
  const Saved& saved = frame.saved[i];
  const Value part = tensors_.allocate(frame.shape->ops[i].input);
  emit_.compute(frame, i, work.backward, work.name, Action::backward);
  tensors_.read(gradient, Role::gradient);
  builder_.reads(saved.input, Role::input);
  builder_.reads(saved.extra, Role::saved);
  builder_.reads(saved.output, Role::saved_output);
  builder_.writes(part.buffer, Role::input_gradient);
  return part;
}

// All of them at once, or what the rank before has had; none: the rank's own is the first to go.
Value PyTorchContext::next_slice(const Frame& frame, std::size_t i, const Value& slice) {
  Value next;
  if (steps_.gathers_slices()) {
    next = steps_.gather_keys(frame, i, frame.saved[i].input);
  } else {
    builder_.wait_for_stream(Stream::context_comm, Stream::compute);
    next = tensors_.allocate(frame.shape->ops[i].context->slice);
    next.ready = steps_.exchange(frame, i, frame.work->ops[i].context.shift, Action::shift_keys);
    builder_.reads(slice.exists() ? slice.buffer : frame.saved[i].input, Role::input);
    builder_.writes(next.buffer, Role::output);
  }
  steps_.wait_in_graph(next.ready);
  return next;
}

// To the rank behind, which adds to it; at last home, into the gradient of keys and values.
Value PyTorchContext::send_gradients(const Frame& frame, std::size_t i, const Value& sum,
                                     Value& out, bool home) {
  builder_.wait_for_stream(Stream::context_comm, Stream::compute);
  const OpId sent =
      steps_.exchange(frame, i, frame.work->ops[i].context.shift_gradient, Action::shift_gradients);
  tensors_.drop(sum, Role::keys_gradient);
  Value next = home ? out : tensors_.allocate(frame.shape->ops[i].context->gradient_slice);
  next.ready = sent;
  builder_.writes(next.buffer, Role::input_gradient);
  if (home) out.ready = sent;
  steps_.wait_in_graph(sent);
  return next;
}

}  // namespace sim::lowering
