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
#include "sim/base/check.hpp"
#include "sim/plan/lowering/stage_lowering.hpp"

namespace sim::lowering {

void StageLowering::intern_context(const ShardedOp& op, ContextWork& work) {
  const ContextAttention& context = *op.context;
  const std::string& name = op.op->name;
  const auto make = [&](CollectiveKind kind, Bytes bytes) {
    return builder_.collective({kind, GroupRole::context, layout_.activation_dtype, bytes});
  };
  if (exchanges_heads(layout_)) return intern_heads(op, work);
  if (context_form() != ContextForm::transformer_engine) return intern_pytorch_context(op, work);
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
  intern_slices(context, work);
}

void StageLowering::intern_slices(const ContextAttention& context, ContextWork& work) {
  work.attend = builder_.kernel(context.attend);
  work.attend_backward = builder_.kernel(context.attend_backward);
  work.merge = builder_.kernel(context.merge);
  work.first_merge = builder_.kernel(context.first_merge);
  work.begin_gradients = builder_.kernel(context.begin_gradients);
  work.add_gradients = builder_.kernel(context.add_gradients);
}

OpId StageLowering::exchange(const Frame& frame, std::size_t i, std::uint32_t work, Action action) {
  const ContextWork& context = frame.work->ops[i].context;
  OpLabel label = frame.label;
  const bool gradients = action == Action::scatter_keys_gradient ||
                         (action == Action::shift_gradients && context.scatter_name != 0);
  label.name = gradients ? context.scatter_name : context.exchange_name;
  return builder_.add_collective(work, Stream::context_comm, frame.pass, label,
                                 {action, site(frame, i)});
}

Value StageLowering::gather_keys(const Frame& frame, std::size_t i, BufferId qkv) {
  const ShardedOp& op = frame.shape->ops[i];
  builder_.wait_for_stream(Stream::context_comm, Stream::compute);
  Value keys = fresh(op.context->slice * layout_.context_parallel);
  keys.ready = exchange(frame, i, frame.work->ops[i].context.gather, Action::gather_keys);
  builder_.reads(qkv, Role::input);
  builder_.writes(keys.buffer, Role::output);
  return keys;
}

Value StageLowering::forward_context(Frame& frame, std::size_t i, Value x) {
  wait_for(x);
  if (exchanges_heads(layout_)) return forward_heads(frame, i, x);
  if (x.ready.value != none) builder_.wait(Stream::context_comm, x.ready);
  if (layout_.context_exchange == ContextExchange::ring) return forward_ring(frame, i, x);
  if (gathers_slices()) return forward_gathered(frame, i, x);
  const OpWork& work = frame.work->ops[i];
  const Value keys = gather_keys(frame, i, x.buffer);
  wait_for(keys);
  Value out = fresh(frame.shape->ops[i].output);
  out.ready = compute(frame, i, work.forward, work.name, Action::forward);
  drop(keys, Role::keys);
  keep_or_free(frame, i, x);
  builder_.writes(out.buffer, Role::output);
  keep_output(frame, i, out);
  return out;
}

// A slice is sent on once the attention of two steps before is done, whose buffer then takes the
// next: two are under way.
Value StageLowering::forward_ring(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const ContextWork& ring = frame.work->ops[i].context;
  const int steps = layout_.context_parallel;
  const Value log_sum_exp = fresh(op.attention_saved);
  builder_.wait_for_stream(Stream::context_comm, Stream::compute);
  Value slice, next, out;
  OpId one_before{none}, two_before{none};
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) {
      if (two_before.value != none) builder_.wait(Stream::context_comm, two_before);
      next = fresh(op.context->slice);
      next.ready = exchange(frame, i, ring.shift, Action::shift_keys);
      read(step == 0 ? x : slice, Role::input);
      builder_.writes(next.buffer, Role::output);
      wait_in_graph(next.ready);
    }
    if (step == 0) {
      out = attend_own(frame, i, x, log_sum_exp);
    } else {
      attend_slice(frame, i, x, slice, out, log_sum_exp, step);
    }
    slice = next;
    two_before = one_before;
    one_before = builder_.last(Stream::compute);
  }
  out.ready = one_before;
  keep_output(frame, i, out);
  return out;
}

Value StageLowering::attend_own(const Frame& frame, std::size_t i, const Value& x,
                                const Value& log_sum_exp) {
  const OpWork& work = frame.work->ops[i];
  const Value out = fresh(frame.shape->ops[i].output);
  compute(frame, i, work.forward, work.name, Action::forward);
  read(x, Role::input);
  builder_.writes(log_sum_exp.buffer, Role::saved);
  builder_.writes(out.buffer, Role::output);
  return out;
}

// The backward pass begins with the slice that comes last; PyTorch's with the rank's own.
void StageLowering::attend_slice(Frame& frame, std::size_t i, const Value& x, const Value& slice,
                                 const Value& out, const Value& log_sum_exp, int step) {
  const ShardedOp& op = frame.shape->ops[i];
  const ContextWork& ring = frame.work->ops[i].context;
  const bool last = step + 1 == layout_.context_parallel;
  if (last && frame.keep) {
    frame.saved[i].input = x.buffer;
    frame.saved[i].extra = log_sum_exp.buffer;
    hold(x.buffer);
    hold(log_sum_exp.buffer);
    if (context_form() == ContextForm::transformer_engine) {
      frame.saved[i].keys = slice.buffer;
      hold(slice.buffer);
    }
  }
  wait_for(slice);
  const Value part = fresh(op.output + op.attention_saved);
  compute(frame, i, ring.attend, ring.slice_name, Action::attend);
  if (last) {
    drop(x, Role::input);
  } else {
    read(x, Role::input);
  }
  drop(slice, Role::keys);
  builder_.writes(part.buffer, Role::output);
  compute(frame, i, step == 1 ? ring.first_merge : ring.merge, ring.merge_name,
          Action::merge_outputs);
  drop(part, Role::input);
  builder_.writes(out.buffer, Role::output);
  builder_.writes(log_sum_exp.buffer, Role::saved);
  if (last) drop(log_sum_exp, Role::saved);
}

Value StageLowering::backward_context(Frame& frame, std::size_t i, Value gradient) {
  wait_for(gradient);
  if (exchanges_heads(layout_)) return backward_heads(frame, i, gradient);
  if (context_form() != ContextForm::transformer_engine)
    return backward_pytorch(frame, i, gradient);
  if (layout_.context_exchange == ContextExchange::ring) return backward_ring(frame, i, gradient);
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  const Value keys = gather_keys(frame, i, frame.saved[i].input);
  wait_for(keys);
  Value out = fresh(op.input);
  const Value keys_gradient = fresh(keys.bytes);
  compute(frame, i, work.backward, work.name, Action::backward);
  drop(gradient, Role::gradient);
  drop(keys, Role::keys);
  free_saved(frame.saved[i]);
  builder_.writes(out.buffer, Role::input_gradient);
  builder_.writes(keys_gradient.buffer, Role::keys_gradient);
  builder_.wait_for_stream(Stream::context_comm, Stream::compute);
  out.ready = exchange(frame, i, work.context.scatter, Action::scatter_keys_gradient);
  drop(keys_gradient, Role::keys_gradient);
  builder_.writes(out.buffer, Role::output);
  return out;
}

// Step by step: the slice goes on, and with it the gradient that the step before has added to;
// beside them the attention; then what it gives is added to the gradient that has come.
Value StageLowering::backward_ring(Frame& frame, std::size_t i, Value gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const ContextWork& ring = frame.work->ops[i].context;
  const int steps = layout_.context_parallel;
  Value out = fresh(op.input);
  Value slice, keys_gradient;
  std::swap(slice.buffer, frame.saved[i].keys);
  for (int step = 0; step < steps; ++step) {
    const bool last = step + 1 == steps;
    const bool both = !last && step > 0;
    builder_.wait_for_stream(Stream::context_comm, Stream::compute);
    const OpId sent = exchange(frame, i, both ? ring.shift_both : ring.shift,
                               step > 0 ? Action::shift_gradients : Action::shift_keys);
    Value next;
    if (!last) {
      next = fresh(op.context->slice);
      next.ready = sent;
      read(slice, Role::input);
      builder_.writes(next.buffer, Role::output);
    }
    if (step > 0) {
      drop(keys_gradient, Role::keys_gradient);
      keys_gradient = fresh(op.context->slice);
      keys_gradient.ready = sent;
      builder_.writes(keys_gradient.buffer, Role::input_gradient);
    }
    const Value part = attend_backward(frame, i, gradient, slice, last);
    merge_gradients(frame, i, part, out, keys_gradient, last);
    slice = next;
  }
  out.ready = builder_.last(Stream::compute);
  return out;
}

Value StageLowering::attend_backward(Frame& frame, std::size_t i, const Value& gradient,
                                     Value& slice, bool last) {
  const OpWork& work = frame.work->ops[i];
  Saved& saved = frame.saved[i];
  wait_for(slice);
  const Value part = fresh(frame.shape->ops[i].input);
  const bool own = last && context_form() == ContextForm::transformer_engine;
  compute(frame, i, own ? work.backward : work.context.attend_backward,
          own ? work.name : work.context.slice_name, Action::attend_backward);
  drop(slice, Role::keys);
  if (last) {
    drop(gradient, Role::gradient);
    free_saved(saved);
  } else {
    read(gradient, Role::gradient);
    builder_.reads(saved.input, Role::input);
    builder_.reads(saved.extra, Role::saved);
    builder_.reads(saved.output, Role::saved_output);
  }
  builder_.writes(part.buffer, Role::output);
  return part;
}

void StageLowering::merge_gradients(const Frame& frame, std::size_t i, const Value& part,
                                    const Value& out, Value& keys_gradient, bool last) {
  const ContextWork& ring = frame.work->ops[i].context;
  const bool first = !keys_gradient.exists();
  if (first) keys_gradient = fresh(frame.shape->ops[i].context->gradient_slice);
  wait_for(keys_gradient);
  compute(frame, i, first ? ring.begin_gradients : ring.add_gradients, ring.merge_name,
          Action::merge_gradients);
  drop(part, Role::input);
  builder_.writes(out.buffer, Role::input_gradient);
  if (last) {
    drop(keys_gradient, Role::keys_gradient);
  } else {
    builder_.writes(keys_gradient.buffer, Role::keys_gradient);
  }
}

}  // namespace sim::lowering
