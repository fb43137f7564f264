// user_buffers.hpp of sim/plan/sharding says which linear does what, and where that stands.
//
// Parts of a product follow each other on the compute stream; slices and blocks on that of the
// tensor group, where none waits for a kernel but the one that it needs. A part that needs a slice
// waits for it alone.
#include "sim/plan/block/user_buffers.hpp"

namespace sim::lowering {

void UserBufferLinears::intern_user_buffers(const ShardedOp& op, UserBufferWork& work) {
  work.forward_part = interned(builder_, op.forward_part);
  work.gradient_part = interned(builder_, op.gradient_part);
  work.place_gradient = interned(builder_, op.place_gradient);
  work.place_saved = interned(builder_, op.place_saved);
  const DType sixteen = layout_.activation_dtype;
  const auto block = [&](int sms) {
    return builder_.collective({CollectiveKind::reduce_scatter, GroupRole::tensor, sixteen,
                                Bytes{op.whole_output.count() / op.forward_parts},
                                Carrier::user_buffers, sms});
  };
  if (op.gathers_input) {
    work.exchange_input = shift_by_copy_engines(builder_, as_gathered(layout_, op, op.input));
    // Tensors gathered in 8 bits have such buffers (`fp8_buf`: by default those of gathers alone).
    work.forward = tensors_.persistent(as_gathered(layout_, op, op.whole_input).bytes);
    work.gathered = tensors_.persistent(as_gathered(layout_, op, op.whole_input).bytes);
    work.summed = tensors_.persistent(op.whole_input);
    return;
  }
  work.exchange_gradient = shift_by_copy_engines(builder_, as_gathered(layout_, op, op.output));
  work.scatter_part = block(user_buffer_sms);
  work.scatter_last = block(last_user_buffer_sms);
  work.forward = tensors_.persistent(op.whole_output);
  work.gathered = tensors_.persistent(as_gathered(layout_, op, op.whole_output).bytes);
}

// Column: the slices of the tokens go round, the own one is multiplied first.
Value UserBufferLinears::forward_exchanged(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  tensors_.wait_for(x);
  emit_.encode_operands(frame, i, x);
  if (x.ready.value != none) builder_.wait(Stream::tensor_comm, x.ready);
  builder_.wait_for_stream(Stream::tensor_comm, Stream::compute);
  const Value whole = tensors_.in_buffer(work.buffers.forward, op.whole_input);
  Value out = tensors_.allocate(op.whole_output);
  OpId arrived{none};
  for (std::int16_t part = 0; part < op.forward_parts; ++part) {
    const OpId here = arrived;
    if (part + 1 < op.forward_parts) {
      arrived = emit_.collective_on(Stream::tensor_comm, frame, i, work.buffers.exchange_input,
                                    work.gather_name, Action::exchange_part);
      builder_.reads(part == 0 ? x.buffer : whole.buffer, Role::input,
                     part == 0 ? BufferUse::whole : part);
      builder_.writes(whole.buffer, Role::output, static_cast<std::int16_t>(part + 1));
    }
    if (part > 0) builder_.wait(Stream::compute, here);
    out.ready =
        emit_.compute(frame, i, work.buffers.forward_part, work.name, Action::multiply_part);
    if (part == 0) {
      kept_.keep_or_free(frame, i, x);
    } else {
      builder_.reads(whole.buffer, Role::input, part);
    }
    emit_.read_weight(frame, i);
    builder_.writes(out.buffer, Role::output);
  }
  tensors_.drop(whole, Role::input);
  return out;
}

// Row: the output features of a block are summed while the next ones are multiplied.
Value UserBufferLinears::forward_scattered(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  tensors_.wait_for(x);
  emit_.encode_operands(frame, i, x);
  const Value partial = tensors_.in_buffer(work.buffers.forward, op.whole_output);
  Value out = tensors_.allocate(op.output);
  for (std::int16_t part = 0; part < op.forward_parts; ++part) {
    const bool last = part + 1 == op.forward_parts;
    const OpId made =
        emit_.compute(frame, i, work.buffers.forward_part, work.name, Action::multiply_part);
    if (last) {
      kept_.keep_or_free(frame, i, x);
    } else {
      tensors_.read(x, Role::input);
    }
    emit_.read_weight(frame, i);
    builder_.writes(partial.buffer, Role::output, part);
    builder_.wait(Stream::tensor_comm, made);
    out.ready = emit_.collective_on(Stream::tensor_comm, frame, i,
                                    last ? work.buffers.scatter_last : work.buffers.scatter_part,
                                    work.sum_name, Action::scatter_part);
    builder_.reads(partial.buffer, Role::input, part);
    builder_.writes(out.buffer, Role::output);
  }
  tensors_.drop(partial, Role::input);
  return out;
}

// The kept input, where the gather beside the input gradient finds it.
void UserBufferLinears::place_saved_input(const Frame& frame, std::size_t i) {
  const OpWork& work = frame.work->ops[i];
  emit_.compute(frame, i, work.buffers.place_saved, work.gather_name, Action::encode);
  const Saved& saved = frame.saved[i];
  if (saved.input.value != none) builder_.reads(saved.input, Role::input);
  if (saved.extra.value != none) builder_.reads(saved.extra, Role::saved);
}

void UserBufferLinears::place_gradient(const Frame& frame, std::size_t i, const Value& gradient) {
  const OpWork& work = frame.work->ops[i];
  tensors_.wait_for(gradient);
  emit_.compute(frame, i, work.buffers.place_gradient, work.gather_name, Action::encode);
  tensors_.read(gradient, Role::gradient);
  builder_.writes(work.buffers.gathered, Role::output, 0);
}

void UserBufferLinears::transpose_gradient(const Frame& frame, std::size_t i,
                                           const Value& gradient) {
  const OpWork& work = frame.work->ops[i];
  if (work.transpose_gradient == none) return;
  emit_.compute(frame, i, work.transpose_gradient, work.encode_name, Action::encode);
  tensors_.read(gradient, Role::gradient);
}

// Row: the slices of the output's gradient go round. Takes the gradient of the rank's own tokens;
// returns the input gradient, and in `gradient` that of all tokens.
Value UserBufferLinears::backward_exchanged(Frame& frame, std::size_t i, Value& gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  place_gradient(frame, i, gradient);
  tensors_.drop(gradient, Role::gradient);
  builder_.wait_for_stream(Stream::tensor_comm, Stream::compute);
  const Value whole = tensors_.in_buffer(work.buffers.gathered, op.whole_output);
  Value out = tensors_.allocate(op.whole_input);
  const int slices = layout_.tensor_parallel;
  OpId arrived{none};
  for (std::int16_t part = 0; part < slices; ++part) {
    const OpId here = arrived;
    if (part + 1 < slices) {
      arrived = emit_.collective_on(Stream::tensor_comm, frame, i, work.buffers.exchange_gradient,
                                    work.gather_name, Action::exchange_part);
      builder_.reads(whole.buffer, Role::input, part);
      builder_.writes(whole.buffer, Role::output, static_cast<std::int16_t>(part + 1));
    }
    if (part > 0) builder_.wait(Stream::compute, here);
    out.ready = emit_.compute(frame, i, work.buffers.gradient_part, work.gradient_name,
                              Action::gradient_part);
    builder_.reads(whole.buffer, Role::gradient, part);
    emit_.read_weight(frame, i);
    builder_.writes(out.buffer, Role::input_gradient);
  }
  gradient = whole;
  return out;
}

}  // namespace sim::lowering
