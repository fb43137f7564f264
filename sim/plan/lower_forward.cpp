// The forward pass of a block, also when it is run again for the backward pass.
#include <algorithm>

#include "sim/plan/stage_lowering.hpp"

namespace sim {

StageLowering::Value StageLowering::fresh(Bytes bytes) {
  Value value;
  value.bytes = bytes;
  value.buffer = builder_.buffer(bytes, BufferCategory::activations);
  return value;
}

// The operator added last is the last reader of `value`.
void StageLowering::drop(const Value& value) {
  if (!value.exists()) return;
  if (value.held) {
    builder_.reads(value.buffer);
  } else {
    builder_.frees(value.buffer);
  }
}

void StageLowering::read(const Value& value) {
  if (value.exists()) builder_.reads(value.buffer);
}

OpId StageLowering::compute(const Frame& frame, std::uint32_t kernel, std::uint32_t name) {
  OpLabel label = frame.label;
  label.name = name;
  return builder_.add_kernel(kernel, Stream::compute, frame.pass, label);
}

// The host launches a collective behind the kernels that it has issued (PyTorch,
// ProcessGroupNCCL::collective: syncStream with the current stream).
OpId StageLowering::tensor_collective(const Frame& frame, std::uint32_t work, std::uint32_t name) {
  OpLabel label = frame.label;
  label.name = name;
  builder_.wait_for_stream(Stream::tensor_comm, Stream::compute);
  return builder_.add_collective(work, Stream::tensor_comm, frame.pass, label);
}

void StageLowering::read_weight(const Frame& frame, std::size_t i) {
  const Parameters* parameters = &parameters_[frame.block->first_op + i];
  if (parameters->same_as != none) parameters = &parameters_[parameters->same_as];
  if (parameters->weight.value != none) {
    builder_.reads(parameters->weight);
  } else if (zero_ == 3 && parameters->bucket != none) {
    builder_.reads(buckets_[parameters->bucket].weight);
  }
}

// What an operator saves is, as far as it reaches, its input (Korthikanti et al. 2022,
// section 4.1): then the input lives on. The rest is written beside it. The operator added last is
// the reader.
void StageLowering::keep_or_free(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  if (!frame.keep) return drop(x);
  Saved& saved = frame.saved[i];
  Bytes rest = op.saved;
  if (!recomputes_attention(op)) rest += op.attention_saved;
  if (x.exists() && !x.held && x.bytes.count() <= rest.count()) {
    saved.input = x.buffer;
    rest -= x.bytes;
    builder_.reads(x.buffer);
  } else {
    drop(x);
  }
  if (rest.count() > 0) {
    saved.extra = builder_.buffer(rest, BufferCategory::activations);
    builder_.writes(saved.extra);
  }
}

StageLowering::Value StageLowering::forward_block(Frame& frame, Value x) {
  for (std::size_t i = 0; i < frame.shape->ops.size(); ++i)
    x = forward_op(frame, i, x);
  return x;
}

StageLowering::Value StageLowering::forward_op(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  switch (op.op->kind) {
    case ModelOpKind::linear:
      return forward_linear(frame, i, x);
    case ModelOpKind::cross_entropy:
      return forward_loss(frame, i, x);
    default:
      break;
  }
  if (work.forward == none) return x;
  if (x.ready.value != none) builder_.wait(Stream::compute, x.ready);
  Value out = fresh(op.sums_output ? op.whole_output : op.output);
  out.ready = compute(frame, work.forward, work.name);
  keep_or_free(frame, i, x);
  read_weight(frame, i);
  builder_.writes(out.buffer);
  return op.sums_output ? sum_over_tensor(frame, i, out) : out;
}

StageLowering::Value StageLowering::forward_linear(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  Value input = x;
  if (op.gathers_input) {
    if (x.ready.value != none) builder_.wait(Stream::tensor_comm, x.ready);
    input = fresh(op.whole_input);
    input.ready = tensor_collective(frame, work.gather_input, work.gather_name);
    keep_or_free(frame, i, x);
    builder_.writes(input.buffer);
  }
  if (input.ready.value != none) builder_.wait(Stream::compute, input.ready);
  encode_operands(frame, i, input);
  Value out = fresh(op.whole_output);
  out.ready = compute(frame, work.forward, work.name);
  if (op.gathers_input) {
    drop(input);
  } else {
    keep_or_free(frame, i, input);
  }
  read_weight(frame, i);
  builder_.writes(out.buffer);
  return op.sums_output ? sum_over_tensor(frame, i, out) : out;
}

// Eight-bit products: the input every time; the weight once per step, before its first micro-batch
// (Transformer Engine, is_first_microbatch), or under ZeRO-3 whenever it has been gathered.
void StageLowering::encode_operands(Frame& frame, std::size_t i, const Value& x) {
  const OpWork& work = frame.work->ops[i];
  if (work.encode_input == none) return;
  compute(frame, work.encode_input, work.encode_name);
  read(x);
  if (zero_ < 3 && (frame.label.microbatch > 0 || frame.pass != Pass::forward)) return;
  compute(frame, work.encode_weight, work.encode_name);
  read_weight(frame, i);
  const BufferId encoded = parameters_[frame.block->first_op + i].encoded;
  if (encoded.value != none) builder_.writes(encoded);
}

// A partial sum becomes the output: in place, or scattered over the tokens.
StageLowering::Value StageLowering::sum_over_tensor(const Frame& frame, std::size_t i,
                                                    Value partial) {
  const OpWork& work = frame.work->ops[i];
  const OpId done = tensor_collective(frame, work.sum_output, work.sum_name);
  if (!layout_.sequence_parallel) {
    builder_.writes(partial.buffer);
    partial.ready = done;
    return partial;
  }
  drop(partial);
  Value out = fresh(frame.shape->ops[i].output);
  builder_.writes(out.buffer);
  out.ready = done;
  return out;
}

// Vocabulary-parallel loss (Megatron-LM, core/tensor_parallel/cross_entropy.py): the local maximum
// is reduced before the exponentials are taken; then the target's logit and their sum.
StageLowering::Value StageLowering::forward_loss(Frame& frame, std::size_t i, Value x) {
  const OpWork& work = frame.work->ops[i];
  const Kernel& whole = *frame.shape->ops[i].forward;
  if (x.ready.value != none) builder_.wait(Stream::compute, x.ready);
  if (work.loss_maximum == none) {
    compute(frame, work.forward, work.name);
    keep_or_free(frame, i, x);
    return {};
  }
  Kernel maximum = whole;
  maximum.bytes = Bytes{std::min(x.bytes.count(), whole.bytes.count())};
  Kernel rest = whole;
  rest.bytes = whole.bytes - maximum.bytes;
  compute(frame, builder_.kernel(maximum), work.name);
  read(x);
  const OpId reduced = tensor_collective(frame, work.loss_maximum, work.sum_name);
  builder_.wait(Stream::compute, reduced);
  compute(frame, builder_.kernel(rest), work.name);
  keep_or_free(frame, i, x);
  tensor_collective(frame, work.loss_sum, work.sum_name);
  const OpId summed = tensor_collective(frame, work.loss_sum, work.sum_name);
  builder_.wait(Stream::compute, summed);
  return {};
}

}  // namespace sim
