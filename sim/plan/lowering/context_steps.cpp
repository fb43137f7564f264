#include "sim/plan/lowering/context_steps.hpp"

namespace sim::lowering {

OpId ContextSteps::exchange(const Frame& frame, std::size_t i, std::uint32_t work, Action action) {
  const ContextWork& context = frame.work->ops[i].context;
  OpLabel label = frame.label;
  const bool gradients = action == Action::scatter_keys_gradient ||
                         (action == Action::shift_gradients && context.scatter_name != 0);
  label.name = gradients ? context.scatter_name : context.exchange_name;
  return builder_.add_collective(work, Stream::context_comm, frame.pass, label,
                                 {action, site(frame, i)});
}

Value ContextSteps::gather_keys(const Frame& frame, std::size_t i, BufferId qkv) {
  const ShardedOp& op = frame.shape->ops[i];
  builder_.wait_for_stream(Stream::context_comm, Stream::compute);
  Value keys = tensors_.allocate(op.context->slice * layout_.context_parallel);
  keys.ready = exchange(frame, i, frame.work->ops[i].context.gather, Action::gather_keys);
  builder_.reads(qkv, Role::input);
  builder_.writes(keys.buffer, Role::output);
  return keys;
}

Value ContextSteps::attend_own(const Frame& frame, std::size_t i, const Value& x,
                               const Value& log_sum_exp) {
  const OpWork& work = frame.work->ops[i];
  const Value out = tensors_.allocate(frame.shape->ops[i].output);
  emit_.compute(frame, i, work.forward, work.name, Action::forward);
  tensors_.read(x, Role::input);
  builder_.writes(log_sum_exp.buffer, Role::saved);
  builder_.writes(out.buffer, Role::output);
  return out;
}

// The backward pass begins with the slice that comes last; PyTorch's with the rank's own.
void ContextSteps::attend_slice(Frame& frame, std::size_t i, const Value& x, const Value& slice,
                                const Value& out, const Value& log_sum_exp, int step) {
  const ShardedOp& op = frame.shape->ops[i];
  const ContextWork& ring = frame.work->ops[i].context;
  const bool last = step + 1 == layout_.context_parallel;
  if (last && frame.keep) {
    frame.saved[i].input = x.buffer;
    frame.saved[i].extra = log_sum_exp.buffer;
    tensors_.retain(x.buffer);
    tensors_.retain(log_sum_exp.buffer);
    if (form() == ContextForm::transformer_engine) {
      frame.saved[i].keys = slice.buffer;
      tensors_.retain(slice.buffer);
    }
  }
  tensors_.wait_for(slice);
  const Value part = tensors_.allocate(op.output + op.attention_saved);
  emit_.compute(frame, i, ring.attend, ring.slice_name, Action::attend);
  if (last) {
    tensors_.drop(x, Role::input);
  } else {
    tensors_.read(x, Role::input);
  }
  tensors_.drop(slice, Role::keys);
  builder_.writes(part.buffer, Role::output);
  emit_.compute(frame, i, step == 1 ? ring.first_merge : ring.merge, ring.merge_name,
                Action::merge_outputs);
  tensors_.drop(part, Role::input);
  builder_.writes(out.buffer, Role::output);
  builder_.writes(log_sum_exp.buffer, Role::saved);
  if (last) tensors_.drop(log_sum_exp, Role::saved);
}

Value ContextSteps::attend_backward(Frame& frame, std::size_t i, const Value& gradient,
                                    Value& slice, bool last) {
  const OpWork& work = frame.work->ops[i];
  Saved& saved = frame.saved[i];
  tensors_.wait_for(slice);
  const Value part = tensors_.allocate(frame.shape->ops[i].input);
  const bool own = last && form() == ContextForm::transformer_engine;
  emit_.compute(frame, i, own ? work.backward : work.context.attend_backward,
                own ? work.name : work.context.slice_name, Action::attend_backward);
  tensors_.drop(slice, Role::keys);
  if (last) {
    tensors_.drop(gradient, Role::gradient);
    kept_.free_saved(saved);
  } else {
    tensors_.read(gradient, Role::gradient);
    builder_.reads(saved.input, Role::input);
    builder_.reads(saved.extra, Role::saved);
    builder_.reads(saved.output, Role::saved_output);
  }
  builder_.writes(part.buffer, Role::output);
  return part;
}

void ContextSteps::merge_gradients(const Frame& frame, std::size_t i, const Value& part,
                                   const Value& out, Value& keys_gradient, bool last) {
  const ContextWork& ring = frame.work->ops[i].context;
  const bool first = !keys_gradient.exists();
  if (first) keys_gradient = tensors_.allocate(frame.shape->ops[i].context->gradient_slice);
  tensors_.wait_for(keys_gradient);
  emit_.compute(frame, i, first ? ring.begin_gradients : ring.add_gradients, ring.merge_name,
                Action::merge_gradients);
  tensors_.drop(part, Role::input);
  builder_.writes(out.buffer, Role::input_gradient);
  if (last) {
    tensors_.drop(keys_gradient, Role::keys_gradient);
  } else {
    builder_.writes(keys_gradient.buffer, Role::keys_gradient);
  }
}

void ContextSteps::wait_in_graph(OpId exchanged) {
  if (form() == ContextForm::compiled) builder_.wait(Stream::compute, exchanged);
}

void ContextSteps::intern_slices(const ContextAttention& context, ContextWork& work) {
  work.attend = builder_.kernel(context.attend);
  work.attend_backward = builder_.kernel(context.attend_backward);
  work.merge = builder_.kernel(context.merge);
  work.first_merge = builder_.kernel(context.first_merge);
  work.begin_gradients = builder_.kernel(context.begin_gradients);
  work.add_gradients = builder_.kernel(context.add_gradients);
}

}  // namespace sim::lowering
