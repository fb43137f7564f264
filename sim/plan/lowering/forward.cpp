// The forward pass of a block, also when it is run again for the backward pass.
#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/plan/lowering/stage_lowering.hpp"

namespace sim::lowering {

BufferId StageLowering::activation(Bytes bytes) {
  const BufferId buffer = builder_.buffer(bytes, BufferCategory::activations);
  holders_.resize(buffer.value + 1);
  holders_[buffer.value] = 1;
  return buffer;
}

Value StageLowering::fresh(Bytes bytes) {
  Value value;
  value.bytes = bytes;
  value.buffer = activation(bytes);
  return value;
}

// The operator added last reads `buffer` in this role, and one of its holders is done with it.
void StageLowering::let_go(BufferId& buffer, Role role) {
  if (buffer.value == none) return;
  if (--holders_[buffer.value] == 0) {
    builder_.frees(buffer, role);
  } else {
    builder_.reads(buffer, role);
  }
  buffer = BufferId{none};
}

void StageLowering::drop(const Value& value, Role role) {
  BufferId buffer = value.buffer;
  let_go(buffer, role);
}

void StageLowering::read(const Value& value, Role role) {
  if (value.exists()) builder_.reads(value.buffer, role);
}

// The next kernel starts when the value is there.
void StageLowering::wait_for(const Value& value) {
  if (value.ready.value != none) builder_.wait(Stream::compute, value.ready);
}

OpId StageLowering::compute(const Frame& frame, std::size_t i, std::uint32_t kernel,
                            std::uint32_t name, Action action) {
  OpLabel label = frame.label;
  label.name = name;
  const OpId op =
      builder_.add_kernel(kernel, Stream::compute, frame.pass, label, {action, site(frame, i)});
  const ShardedOp& shape = frame.shape->ops[i];
  if (action == Action::forward || action == Action::loss_exponentials)
    builder_.takes(shape.scratch_forward);
  if (action == Action::backward) builder_.takes(shape.scratch_backward);
  return op;
}

// The host launches a collective behind the kernels that it has issued (PyTorch,
// ProcessGroupNCCL::collective: syncStream with the current stream).
OpId StageLowering::tensor_collective(const Frame& frame, std::size_t i, std::uint32_t work,
                                      std::uint32_t name, Action action) {
  OpLabel label = frame.label;
  label.name = name;
  builder_.wait_for_stream(Stream::tensor_comm, Stream::compute);
  const OpId op = builder_.add_collective(work, Stream::tensor_comm, frame.pass, label,
                                          {action, site(frame, i)});
  if (action == Action::gather_output || action == Action::gather_input)
    builder_.takes(frame.shape->ops[i].scratch_gather);
  return op;
}

void StageLowering::read_weight(const Frame& frame, std::size_t i) {
  const Parameters& parameters = parameters_[site(frame, i)];
  const std::uint32_t bucket = parameters.matrix().bucket;
  if (bucket != none) builder_.reads(buckets_[bucket].weight, Role::weight);
}

// What an operator saves is, as far as it reaches, its input (Korthikanti et al. 2022,
// section 4.1): then the input lives on. The rest is written beside it. The operator added last is
// the reader.
void StageLowering::keep_or_free(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  Bytes rest = op.saved;
  if (!recomputes_attention(op)) rest += op.attention_saved;
  if (op.op->in_place && !is_held(frame, i)) return keep_beside(frame, i, rest);
  const bool fits = x.exists() && x.bytes.count() <= rest.count();
  if (!frame.keep || !fits) {
    drop(x, Role::input);
  } else {
    read(x, Role::input);
    frame.saved[i].input = x.buffer;
  }
  if (fits) rest -= x.bytes;
  keep_beside(frame, i, rest);
}

void StageLowering::keep_beside(Frame& frame, std::size_t i, Bytes bytes) {
  if (!(frame.keep || holds_output(frame, i)) || bytes.count() == 0) return;
  frame.saved[i].extra = activation(bytes);
  builder_.writes(frame.saved[i].extra, Role::saved);
}

// The linear behind keeps the same tensor as its input; it lives until both have read it.
void StageLowering::keep_output(Frame& frame, std::size_t i, const Value& out) {
  if (!frame.keep || !frame.shape->ops[i].op->backward_reads_output) return;
  hold(out.buffer);
  frame.saved[i].output = out.buffer;
}

// Recomputation by operators: what is kept of an operator beside its input, from its forward pass
// on.
bool StageLowering::holds_output(const Frame& frame, std::size_t i) {
  return !frame.keep && frame.shape->ops[i].keeps_tensor;
}

// Whether the input of an operator is such an output: nothing may be written in its place.
bool StageLowering::is_held(const Frame& frame, std::size_t i) {
  return i > 0 && holds_output(frame, i - 1);
}

// It takes the place of what the operator would make again.
Value StageLowering::held_output(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  SIM_CHECK(x.exists() && x.bytes.count() <= (op.saved + op.attention_saved).count(), op.op->name);
  frame.saved[i].input = x.buffer;
  Value out = std::exchange(frame.saved[i].held, {});
  out.ready = x.ready;
  keep_output(frame, i, out);
  return out;
}

Value StageLowering::forward_block(Frame& frame, Value x) {
  for (std::size_t i = 0; i < frame.shape->ops.size(); ++i) {
    const bool loss = frame.shape->ops[i].op->kind == ModelOpKind::cross_entropy;
    if (loss && frame.pass == Pass::recompute) return x;
    const OpWork& work = frame.work->ops[i];
    if (i >= frame.end) return end_early(frame, i, x);
    const int from = frame.shape->ops[i].op->starts_from;
    if (from >= 0) {
      past_branch_[i] = x;
      Value& lent = past_branch_[static_cast<std::size_t>(from)];
      x = lent;
      if (begins_branch(frame, frame.work->ops[static_cast<std::size_t>(from)])) {
        hold(x.buffer);  // a residual sum will read it, too (post-norm)
      } else {
        lent = {};
      }
    } else if ((begins_branch(frame, work) || work.lends_input) && x.exists()) {
      hold(x.buffer);
      past_branch_[i] = x;
    }
    const bool again = frame.pass == Pass::recompute && frame.shape->ops[i].keeps_tensor;
    x = again ? held_output(frame, i, x) : forward_op(frame, i, x);
    if (holds_output(frame, i)) {
      hold(x.buffer);
      frame.saved[i].held = x;
    }
    // What runs again makes tensors of its own, kept outputs among them.
    const bool kernel_last = frame.shape->ops[i].op->kind != ModelOpKind::linear;
    if (frame.kept.value == none || !kernel_last || frame.saved[i].extra.value != none) continue;
    builder_.frees(frame.kept, Role::saved);
    frame.kept = BufferId{none};
  }
  return x;
}

// What is added to a sum that does not run need not be there.
bool StageLowering::begins_branch(const Frame& frame, const OpWork& work) const {
  return work.begins_branch && work.branch_sum < frame.end;
}

// The product at which the recomputation ends keeps its input.
Value StageLowering::end_early(Frame& frame, std::size_t i, const Value& x) {
  SIM_CHECK(x.exists() && x.bytes == frame.shape->ops[i].saved, frame.shape->ops[i].op->name);
  frame.saved[i].input = x.buffer;
  return {};
}

// The kernel is called with the length of the longest sequence, which the device has (Scaling,
// core/nn/attention/attention.py, get_max_seq_length: `.item()`).
void StageLowering::wait_for_lengths() {
  if (model_.model->execution.waits_for_lengths && builder_.has_op(Stream::compute))
    builder_.host_waits_for(builder_.last(Stream::compute));
}

// The layer makes two tensors of a number each on the device. The copy from the host waits for the
// stream (microsoft/Megatron-DeepSpeed, megatron/model/transformer.py, torch.tensor(0.0, device);
// PyTorch, ATen/native/cuda/Copy.cu: a copy of pageable memory is synchronous).
void StageLowering::wait_before_mlp(const OpWork& work) {
  if (work.begins_mlp && model_.model->execution.sync_before_mlp)
    builder_.host_waits_for(builder_.last(Stream::compute));
}

Value StageLowering::forward_op(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  switch (op.op->kind) {
    case ModelOpKind::linear:
      return forward_linear(frame, i, x);
    case ModelOpKind::cross_entropy:
      return forward_loss(frame, i, x);
    case ModelOpKind::router:
      return forward_router(frame, i, x);
    case ModelOpKind::dispatch:
      return send_to_experts(frame, i, x);
    case ModelOpKind::combine:
      return bring_from_experts(frame, i, x);
    default:
      break;
  }
  if (work.forward == none) return x;
  if (frame.pass == Pass::recompute && op.keeps_whole_output) return kept_output(frame, i, x);
  if (op.op->kind == ModelOpKind::attention) wait_for_lengths();
  if (work.context.exists()) return forward_context(frame, i, x);
  Value residual;
  if (op.op->residual_of >= 0) {
    std::swap(residual, past_branch_[static_cast<std::size_t>(op.op->residual_of)]);
  }
  wait_for(x);
  wait_for(residual);
  const bool in_place = op.op->in_place && x.exists();
  const bool apart = in_place && is_held(frame, i);
  Value out = apart      ? fresh(x.bytes)
              : in_place ? x
                         : fresh(op.sums_output ? op.whole_output : op.output);
  out.ready = compute(frame, i, work.forward, work.name, Action::forward);
  keep_or_free(frame, i, x);
  weigh_choices(frame, i);
  drop(residual, Role::residual);
  read_weight(frame, i);
  builder_.writes(out.buffer, Role::output);
  keep_output(frame, i, out);
  return op.sums_output ? sum_over_tensor(frame, i, out) : out;
}

Value StageLowering::forward_linear(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  const bool again = frame.pass == Pass::recompute && !work.products_again.empty();
  wait_before_mlp(work);
  if (again && op.keeps_whole_output) return kept_output(frame, i, x);
  if (work.sliced_forward.exists())
    return forward_sliced(frame, i, again ? work.sliced_again : work.sliced_forward, x);
  if (work.buffers.exchange_input != none) return forward_exchanged(frame, i, x);
  if (work.buffers.scatter_part != none) return forward_scattered(frame, i, x);
  const Value input = op.gathers_input ? gather_input(frame, i, x) : x;
  wait_for(input);
  encode_operands(frame, i, input);
  Value out = fresh(op.whole_output);
  builder_.tensors(out.buffer, op.products);
  const std::vector<std::uint32_t>& products = again ? work.products_again : work.products;
  for (std::size_t product = 0; product + 1 < products.size(); ++product) {
    compute(frame, i, products[product], work.name, Action::forward);
    read(input, Role::input);
    read_weight(frame, i);
    builder_.writes(out.buffer, Role::output);
  }
  out.ready = compute(frame, i, products.back(), work.name, Action::forward);
  if (op.gathers_input && !model_.model->execution.keeps_gathered_inputs) {
    drop(input, Role::input);
  } else {
    keep_or_free(frame, i, input);
  }
  read_weight(frame, i);
  builder_.writes(out.buffer, Role::output);
  if (work.gather_output != none) return gather_output(frame, i, out);
  return op.sums_output ? sum_over_tensor(frame, i, out) : out;
}

Value StageLowering::gather_input(Frame& frame, std::size_t i, const Value& x) {
  const OpWork& work = frame.work->ops[i];
  if (x.ready.value != none) builder_.wait(Stream::tensor_comm, x.ready);
  Value whole = fresh(frame.shape->ops[i].whole_input);
  whole.ready =
      tensor_collective(frame, i, work.gather_input, work.gather_name, Action::gather_input);
  if (model_.model->execution.keeps_gathered_inputs) {
    drop(x, Role::input);
  } else {
    keep_or_free(frame, i, x);
  }
  builder_.writes(whole.buffer, Role::output);
  reorder(frame, i, work.reorder_input, whole);
  return whole;
}

// The output of all tensor ranks on each of them.
Value StageLowering::gather_output(Frame& frame, std::size_t i, Value own) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  Value parts = fresh(op.gathered_output);
  parts.ready =
      tensor_collective(frame, i, work.gather_output, work.gather_name, Action::gather_output);
  drop(own, Role::input);
  builder_.writes(parts.buffer, Role::output);
  wait_for(parts);
  Value whole = fresh(op.gathered_output);
  whole.ready = compute(frame, i, work.join_output, work.name, Action::join_output);
  drop(parts, Role::input);
  builder_.writes(whole.buffer, Role::output);
  return whole;
}

// Recompute::operators: an output that was kept whole stands for the operator and what sums it. Its
// weight gradient may want the input of all tokens, which was not kept.
Value StageLowering::kept_output(Frame& frame, std::size_t i, Value x) {
  const OpWork& work = frame.work->ops[i];
  if (frame.shape->ops[i].gathers_input && model_.model->execution.keeps_gathered_inputs)
    x = gather_input(frame, i, x);
  wait_for(x);
  Value out = fresh(frame.shape->ops[i].output);
  out.ready = compute(frame, i, work.products_again.front(), work.name, Action::forward);
  keep_or_free(frame, i, x);
  read_weight(frame, i);
  builder_.writes(out.buffer, Role::output);
  keep_output(frame, i, out);
  return out;
}

// Behind a gather of tokens, or before their sum is scattered: the same tensor, moved.
void StageLowering::reorder(const Frame& frame, std::size_t i, std::uint32_t kernel, Value& tokens,
                            Action action) {
  if (kernel == none) return;
  const OpWork& work = frame.work->ops[i];
  wait_for(tokens);
  tokens.ready =
      compute(frame, i, kernel,
              action == Action::sum_products ? work.gradient_name : work.reorder_name, action);
  if (action == Action::reorder_tokens) builder_.takes(copied(tokens.bytes));
  builder_.writes(tokens.buffer, Role::output);
}

// Eight-bit products: the input every time, unless the norm before has written it so; the weight
// once per step, before its first micro-batch (Transformer Engine, is_first_microbatch), or each
// time, as under ZeRO-3, where it has been gathered.
void StageLowering::encode_operands(Frame& frame, std::size_t i, const Value& x) {
  const OpWork& work = frame.work->ops[i];
  if (work.encode_input != none) {
    compute(frame, i, work.encode_input, work.encode_name, Action::encode);
    read(x, Role::input);
  }
  if (work.encode_weight == none) return;
  const bool each_time = zero_ == 3 || frame.shape->ops[i].encodes_weight_each_time;
  if (!each_time && (frame.label.microbatch > 0 || frame.pass != Pass::forward)) return;
  compute(frame, i, work.encode_weight, work.encode_name, Action::encode);
  read_weight(frame, i);
  const BufferId encoded = parameters_[site(frame, i)].encoded;
  if (encoded.value != none) builder_.writes(encoded, Role::encoded_weight);
}

// A partial sum becomes the output: in place, or scattered over the tokens.
Value StageLowering::sum_over_tensor(const Frame& frame, std::size_t i, Value partial) {
  const OpWork& work = frame.work->ops[i];
  reorder(frame, i, work.reorder_output, partial);
  const OpId done = tensor_collective(frame, i, work.sum_output, work.sum_name, Action::sum_output);
  if (!layout_.sequence_parallel) {
    builder_.writes(partial.buffer, Role::output);
    partial.ready = done;
    return partial;
  }
  drop(partial, Role::input);
  Value out = fresh(frame.shape->ops[i].output);
  builder_.writes(out.buffer, Role::output);
  out.ready = done;
  return out;
}

// What the loss keeps: the exponentials, as fp32, in the place of fp32 logits or else in a buffer
// of their own while the logits end here; and two numbers per token.
void StageLowering::keep_loss(Frame& frame, std::size_t i, const Value& x) {
  const ShardedOp& op = frame.shape->ops[i];
  Saved& saved = frame.saved[i];
  const bool in_place = layout_.activation_dtype == DType::fp32 && x.bytes == op.saved;
  if (in_place) {
    saved.extra = x.buffer;
  } else {
    const int held = model_.model->execution.held_logits;
    if (held > 0 || op.op->in_place) {
      read(x, Role::input);
      saved.input = x.buffer;
    } else {
      drop(x, Role::input);
    }
    if (held > 1) {
      saved.output = activation(x.bytes * (held - 1));
      builder_.writes(saved.output, Role::output);
    }
    if (op.saved.count() > 0) saved.extra = activation(op.saved);
  }
  if (saved.extra.value != none) builder_.writes(saved.extra, Role::saved);
  const Bytes per_token{4 * op.forward->m};
  saved.target_logit = activation(per_token);
  saved.exponential_sum = activation(per_token);
  builder_.writes(saved.target_logit, Role::target_logit);
  builder_.writes(saved.exponential_sum, Role::exponential_sum);
}

// Vocabulary-parallel loss (Megatron-LM, core/tensor_parallel/cross_entropy.py): the local maximum
// is reduced before the exponentials are taken; then the target's logit and their sum.
Value StageLowering::forward_loss(Frame& frame, std::size_t i, Value x) {
  const OpWork& work = frame.work->ops[i];
  const Kernel& whole = *frame.shape->ops[i].forward;
  wait_for(x);
  if (work.loss_maximum == none) {
    compute(frame, i, work.forward, work.name, Action::forward);
    keep_loss(frame, i, x);
    return {};
  }
  Kernel first = whole;
  first.bytes = Bytes{std::min(x.bytes.count(), whole.bytes.count())};
  Kernel rest = whole;
  rest.bytes = whole.bytes - first.bytes;
  const Value maximum = fresh(Bytes{4 * whole.m});
  compute(frame, i, builder_.kernel(first), work.name, Action::loss_maximum);
  read(x, Role::input);
  builder_.writes(maximum.buffer, Role::maximum);
  const OpId reduced =
      tensor_collective(frame, i, work.loss_maximum, work.sum_name, Action::reduce_maximum);
  builder_.writes(maximum.buffer, Role::output);
  builder_.wait(Stream::compute, reduced);
  compute(frame, i, builder_.kernel(rest), work.name, Action::loss_exponentials);
  drop(maximum, Role::maximum);
  keep_loss(frame, i, x);
  tensor_collective(frame, i, work.loss_sum, work.sum_name, Action::reduce_sum);
  builder_.writes(frame.saved[i].target_logit, Role::output);
  const OpId summed = tensor_collective(frame, i, work.loss_sum, work.sum_name, Action::reduce_sum);
  builder_.writes(frame.saved[i].exponential_sum, Role::output);
  builder_.wait(Stream::compute, summed);
  return {};
}

}  // namespace sim::lowering
