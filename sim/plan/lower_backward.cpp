// Gradients: of inputs first, then of weights, so that what other ranks wait for leaves early.
#include "sim/plan/stage_lowering.hpp"

namespace sim {

void StageLowering::free_saved(Saved& saved) {
  for (BufferId* buffer : {&saved.input, &saved.extra, &saved.core}) {
    if (buffer->value != none) builder_.frees(*buffer);
    *buffer = BufferId{none};
  }
}

// The first operator of the model has nobody to hand a gradient to.
bool StageLowering::needs_input_gradient(const Frame& frame, std::size_t i) const {
  return i > 0 || !frame.block->is_first;
}

StageLowering::Value StageLowering::backward_block(Frame& frame, Value gradient) {
  // The residual stream carries the gradient of a layer's output past its two branches: that tensor
  // lives until the layer is through.
  const bool residual = !model_.model->is_layer_list && frame.block->layer >= 0 &&
                        gradient.exists() && !gradient.held;
  const Value stream = gradient;
  gradient.held = gradient.held || residual;
  for (std::size_t i = frame.shape->ops.size(); i-- > 0;) {
    gradient = backward_op(frame, i, gradient);
  }
  if (gradient.exists() && gradient.buffer == stream.buffer) {
    gradient.held = stream.held;  // nothing has run: the tensor passes on
  } else if (residual && !frame.residual_taken) {
    builder_.frees(stream.buffer);
  }
  return gradient;
}

StageLowering::Value StageLowering::backward_op(Frame& frame, std::size_t i, Value gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  if (op.op->kind == ModelOpKind::linear) return backward_linear(frame, i, gradient);
  if (work.gather_gradient != none) gradient = gather_gradient(frame, i, gradient);
  if (work.backward == none) {
    free_saved(frame.saved[i]);
    if (op.parameters > 0) gradient_ready(frame, i);
    return gradient;
  }
  recompute_attention(frame, i);
  if (gradient.ready.value != none) builder_.wait(Stream::compute, gradient.ready);
  const OpId done = compute(frame, work.backward, work.name);
  drop(gradient);
  read_weight(frame, i);
  free_saved(frame.saved[i]);
  Value out;
  if (needs_input_gradient(frame, i) && op.input.count() > 0) {
    out = fresh(op.input);
    builder_.writes(out.buffer);
  }
  out.ready = done;
  if (op.parameters > 0) {
    write_gradient(frame, i);
    gradient_ready(frame, i);
  }
  return out;
}

bool StageLowering::recomputes_attention(const ShardedOp& op) const {
  return layout_.recompute == Recompute::selective && op.attention_saved.count() > 0 &&
         layout_.attention == AttentionKernel::unfused;
}

// Selective recomputation (Korthikanti et al. 2022, section 5): the attention core of an unfused
// kernel is run again from the saved Q, K and V. A flash kernel has no core to drop.
void StageLowering::recompute_attention(Frame& frame, std::size_t i) {
  const ShardedOp& op = frame.shape->ops[i];
  if (!recomputes_attention(op)) return;
  Frame again = frame;
  again.pass = Pass::recompute;
  compute(again, frame.work->ops[i].forward, frame.work->ops[i].name);
  if (frame.saved[i].input.value != none) builder_.reads(frame.saved[i].input);
  if (frame.saved[i].extra.value != none) builder_.reads(frame.saved[i].extra);
  frame.saved[i].core = builder_.buffer(op.attention_saved, BufferCategory::activations);
  builder_.writes(frame.saved[i].core);
}

// With sequence parallelism the gradient of a scattered output is gathered.
StageLowering::Value StageLowering::gather_gradient(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  if (gradient.ready.value != none) builder_.wait(Stream::tensor_comm, gradient.ready);
  Value whole = fresh(frame.shape->ops[i].whole_output);
  whole.ready = tensor_collective(frame, work.gather_gradient, work.gather_name);
  drop(gradient);
  builder_.writes(whole.buffer);
  return whole;
}

// Only a slice of the tokens of a column's input was kept: the weight gradient needs all of them
// (Korthikanti et al. 2022, section 4.2.2).
StageLowering::Value StageLowering::gather_saved_input(Frame& frame, std::size_t i) {
  const OpWork& work = frame.work->ops[i];
  if (work.gather_input == none) return {};
  Value whole = fresh(frame.shape->ops[i].whole_input);
  whole.ready = tensor_collective(frame, work.gather_input, work.gather_name);
  if (frame.saved[i].input.value != none) builder_.reads(frame.saved[i].input);
  builder_.writes(whole.buffer);
  return whole;
}

StageLowering::Value StageLowering::backward_linear(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  const bool split = splits_backward(layout_.schedule);
  if (work.gather_gradient != none) gradient = gather_gradient(frame, i, gradient);
  // Megatron-LM, core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication:
  // the input is gathered beside the input-gradient product, and the input gradient is reduced
  // beside the weight-gradient product.
  const Value gathered = split ? Value{} : gather_saved_input(frame, i);
  if (!layout_.overlap_tensor_wgrad && gathered.exists()) {
    builder_.wait(Stream::compute, gathered.ready);
  }
  if (gradient.ready.value != none) builder_.wait(Stream::compute, gradient.ready);
  if (work.encode_gradient != none) {
    compute(frame, work.encode_gradient, work.encode_name);
    read(gradient);
  }
  Value out;
  if (needs_input_gradient(frame, i)) out = input_gradient(frame, i, gradient);
  if (!layout_.overlap_tensor_wgrad && out.exists()) builder_.wait(Stream::compute, out.ready);
  if (!split) {
    weight_gradient(frame, i, gradient, gathered);
    return out;
  }
  frame.saved[i].gradient = gradient.buffer;
  frame.residual_taken = frame.residual_taken || gradient.held;
  return out;
}

StageLowering::Value StageLowering::input_gradient(Frame& frame, std::size_t i,
                                                   const Value& gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  Value out = fresh(op.whole_input);
  out.ready = compute(frame, work.input_gradient, work.gradient_name);
  read(gradient);
  read_weight(frame, i);
  builder_.writes(out.buffer);
  if (work.sum_gradient == none) return out;
  const OpId done = tensor_collective(frame, work.sum_gradient, work.sum_name);
  if (!layout_.sequence_parallel) {
    builder_.writes(out.buffer);
    out.ready = done;
    return out;
  }
  drop(out);
  Value scattered = fresh(op.input);
  builder_.writes(scattered.buffer);
  scattered.ready = done;
  return scattered;
}

void StageLowering::weight_gradient(Frame& frame, std::size_t i, const Value& gradient,
                                    const Value& gathered) {
  const OpWork& work = frame.work->ops[i];
  if (gathered.exists()) builder_.wait(Stream::compute, gathered.ready);
  if (work.backward != none) {
    compute(frame, work.backward, work.bias_name);
    read(gradient);
    write_gradient(frame, i);
  }
  compute(frame, work.weight_gradient, work.weight_name);
  drop(gathered);
  drop(gradient);
  free_saved(frame.saved[i]);
  write_gradient(frame, i);
  gradient_ready(frame, i);
}

void StageLowering::deferred_weight_gradients(Frame& frame) {
  for (std::size_t i = frame.shape->ops.size(); i-- > 0;) {
    if (frame.shape->ops[i].op->kind != ModelOpKind::linear) continue;
    const Value gathered = gather_saved_input(frame, i);
    Value gradient;
    gradient.buffer = frame.saved[i].gradient;
    frame.saved[i].gradient = BufferId{none};
    weight_gradient(frame, i, gradient, gathered);
  }
}

}  // namespace sim
