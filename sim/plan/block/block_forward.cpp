#include "sim/plan/block/block_forward.hpp"

#include <utility>

#include "sim/base/check.hpp"
#include "sim/model/expert_bias.hpp"

namespace sim::lowering {

Value BlockForward::forward_block(Frame& frame, Value x) {
  const bool beside = layout_.overlap_shared_experts && parts_.places(frame).has_shared();
  x = beside ? forward_beside_shared(frame, x)
             : forward_ops(frame, x, {0, frame.shape->ops.size()});
  if (frame.pass == Pass::forward) keep_outputs(frame);
  return x;
}

// Megatron-LM, core/transformer/moe/shared_experts.py: the shared experts' stream does their first
// half beside the exchange to the experts, the second beside that back.
Value BlockForward::forward_beside_shared(Frame& frame, Value x) {
  ExpertPass& experts = parts_.experts;
  const ExpertPlaces at = parts_.places(frame);
  x = forward_ops(frame, x, {0, at.dispatch});
  Value sent = experts.exchange_to_experts(frame, at.dispatch,
                                           experts.leave_for_experts(frame, at.dispatch, x));
  Value shared = forward_ops(frame, sent, {at.shared, at.shared_down});
  sent = forward_ops(frame, experts.arrive_at_experts(frame, at.dispatch, sent),
                     {at.dispatch + 1, at.combine});
  sent = experts.exchange_from_experts(frame, at.combine,
                                       experts.leave_experts(frame, at.combine, sent));
  shared = forward_ops(frame, shared, {at.shared_down, at.shared_sum});
  branches_.past[at.shared] = experts.arrive_from_experts(frame, at.combine, sent);
  return forward_ops(frame, shared, {at.shared_sum, frame.shape->ops.size()});
}

Value BlockForward::forward_ops(Frame& frame, Value x, OpRange range) {
  for (std::size_t i = range.begin; i < range.end; ++i) {
    if (!frame.runs(i)) return end_early(frame, i, x);
    const Replay* own = frame.kept->replay_at(i);
    const bool starts = frame.replay != nullptr && frame.replay == own && frame.kept->starts(i);
    x = starts ? enter_replay(frame, i, x) : enter_branch(frame, i, x);
    if (own != nullptr && own != frame.replay && own->pieces > 1) {
      x = forward_pieces(frame, *own, x);
      i = own->ops.back();
      continue;
    }
    x = forward_or_replay(frame, i, x);
    if (frame.replay != nullptr) free_kept_outputs(frame, i);
  }
  return x;
}

// Operators that run again keep nothing; the first one keeps what it starts from, unless that is
// made again, too.
Value BlockForward::forward_or_replay(Frame& frame, std::size_t i, const Value& x) {
  if (frame.replay != nullptr && frame.kept->holds_output(i)) return kept_.held_output(frame, i, x);
  if (frame.replay == frame.kept->replay_at(i)) return forward_op(frame, i, x);
  if (frame.kept->starts(i) && !SavedTensors::input_comes_again(frame, i)) {
    tensors_.retain(x.buffer);
    frame.saved[i].replay_input = {x.buffer, x.bytes};  // it will be there: no need to wait
  }
  const bool keep = std::exchange(frame.keep, false);
  const Value out = forward_op(frame, i, x);
  if (kept_.holds_output(frame, i)) {
    tensors_.retain(out.buffer);
    frame.saved[i].held = out;
  }
  frame.keep = keep;
  return out;
}

// A replay starts from an input that was kept. The tensor `x` that it has made so far goes past the
// branch that begins here, to the sum behind it.
Value BlockForward::enter_replay(const Frame& frame, std::size_t i, const Value& x) {
  if (x.exists()) {
    const int from = frame.shape->ops[frame.replay->ops.back()].op->residual_of;
    SIM_CHECK(from >= 0, frame.shape->ops[i].op->name);
    branches_.past[static_cast<std::size_t>(from)] = x;
  }
  const Value kept = std::exchange(frame.saved[i].replay_input, {});
  SIM_CHECK(kept.exists(), frame.shape->ops[i].op->name);
  lend_input(frame, i, kept);
  return kept;
}

// The operator added last, the residual sum at the end of the layer, is taken as their writer.
void BlockForward::keep_outputs(const Frame& frame) {
  const Bytes bytes = frame.shape->kept_outputs;
  if (!frame.kept->keeps_input_alone() || bytes.count() == 0) return;
  frame.saved->outputs = builder_.buffer(bytes, BufferCategory::activations);
  builder_.writes(frame.saved->outputs, Role::saved);
}

// Operators that run again make tensors of their own, kept outputs among them.
void BlockForward::free_kept_outputs(const Frame& frame, std::size_t i) {
  const bool kernel_last = frame.shape->ops[i].op->kind != ModelOpKind::linear;
  if (frame.saved->outputs.value == none || !kernel_last || frame.saved[i].extra.value != none)
    return;
  builder_.frees(std::exchange(frame.saved->outputs, BufferId{none}), Role::saved);
}

// Where a branch begins, its input goes past it; a second one starts from what another has read.
Value BlockForward::enter_branch(const Frame& frame, std::size_t i, Value x) {
  const int from = frame.shape->ops[i].op->starts_from;
  if (from < 0) {
    lend_input(frame, i, x);
    return x;
  }
  if (begins_branch(frame, frame.work->ops[i]))
    branches_.past[i] = x;
  else
    tensors_.drop(x, Role::output);  // its sum does not run again
  Value& lent = branches_.past[static_cast<std::size_t>(from)];
  x = lent;
  if (begins_branch(frame, frame.work->ops[static_cast<std::size_t>(from)])) {
    tensors_.retain(x.buffer);  // a residual sum will read it, too (post-norm)
  } else {
    lent = {};
  }
  return x;
}

void BlockForward::lend_input(const Frame& frame, std::size_t i, const Value& x) {
  const OpWork& work = frame.work->ops[i];
  const bool lends = work.borrower != none && frame.runs(work.borrower);
  if (!x.exists() || !(begins_branch(frame, work) || lends)) return;
  tensors_.retain(x.buffer);
  branches_.past[i] = x;
}

// The second term of a sum that does not run need not be there.
bool BlockForward::begins_branch(const Frame& frame, const OpWork& work) const {
  return work.begins_branch && frame.runs(work.branch_sum);
}

// The product at which the recomputation ends keeps its input, unless its weights are frozen.
Value BlockForward::end_early(Frame& frame, std::size_t i, const Value& x) {
  const bool keeps =
      frame.shape->ops[i].op->kind == ModelOpKind::linear && frame.shape->ops[i].saved.count() > 0;
  if (!keeps) {
    tensors_.drop(x, Role::output);
    return {};
  }
  SIM_CHECK(x.exists() && x.bytes == frame.shape->ops[i].saved, frame.shape->ops[i].op->name);
  frame.saved[i].input = x.buffer;
  return {};
}

// The kernel is called with the length of the longest sequence, which the device has (Scaling,
// core/nn/attention/attention.py, get_max_seq_length: `.item()`).
void BlockForward::wait_for_lengths() {
  if (runs_.waits_for_lengths && builder_.has_op(Stream::compute))
    builder_.host_waits_for(builder_.last(Stream::compute));
}

// The layer makes two tensors of a number each on the device. The copy from the host waits for the
// stream (microsoft/Megatron-DeepSpeed, megatron/model/transformer.py, torch.tensor(0.0, device);
// PyTorch, ATen/native/cuda/Copy.cu: a copy of pageable memory is synchronous).
void BlockForward::wait_before_mlp(const OpWork& work) {
  if (work.begins_mlp && runs_.sync_before_mlp)
    builder_.host_waits_for(builder_.last(Stream::compute));
}

// A copy of pageable memory waits for the stream, as above (Megatron-LM, fused_bias_geglu.py).
void BlockForward::wait_for_copies(const ShardedOp& op) {
  if (copies_offset(*model_.model, *op.op) && builder_.has_op(Stream::compute))
    builder_.host_waits_for(builder_.last(Stream::compute));
}

Value BlockForward::forward_op(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  switch (op.op->kind) {
    case ModelOpKind::linear:
      return forward_linear(frame, i, x);
    case ModelOpKind::cross_entropy:
      return loss_.forward_loss(frame, i, x);
    case ModelOpKind::router:
      return parts_.experts.forward_router(frame, i, x);
    case ModelOpKind::dispatch:
      return parts_.experts.send_to_experts(frame, i, x);
    case ModelOpKind::combine:
      return parts_.experts.bring_from_experts(frame, i, x);
    default:
      break;
  }
  if (work.forward == none) return x;
  if (frame.replay != nullptr && frame.kept->has_output_in_block(i))
    return kept_output(frame, i, x);
  if (op.op->kind == ModelOpKind::attention) wait_for_lengths();
  if (op.whole) {
    TapeValues values{x};
    return parts_.tapes.play(frame, i, op.whole->forward, values);
  }
  Value residual;
  if (op.op->residual_of >= 0) {
    std::swap(residual, branches_.past[static_cast<std::size_t>(op.op->residual_of)]);
  }
  const Value gathered = bring_beside(frame, i, work.gather_beside, op.gathered_beside);
  const Value summed = bring_beside(frame, i, work.sum_beside, op.summed_beside);
  tensors_.wait_for(x);
  tensors_.wait_for(residual);
  wait_for_copies(op);
  const bool in_place = op.op->in_place && x.exists();
  const bool apart = in_place && kept_.is_held(frame, i);
  Value out = apart      ? tensors_.allocate(x.bytes)
              : in_place ? x
                         : tensors_.allocate(op.sums_output ? op.whole_output : op.output);
  out.ready = emit_.compute(frame, i, work.forward, work.name, Action::forward);
  if (gathered.exists()) tensors_.drop(gathered, Role::keys);
  if (summed.exists()) tensors_.drop(summed, Role::residual);
  kept_.keep_or_free(frame, i, x);
  parts_.experts.weigh_choices(frame, i);
  tensors_.drop(residual, Role::residual);
  emit_.read_weight(frame, i);
  builder_.writes(out.buffer, Role::output);
  kept_.keep_output(frame, i, out);
  return op.sums_output ? sum_over_tensor(frame, i, out) : out;
}

// Brings the further inputs of an indexer, from all tensor ranks.
Value BlockForward::bring_beside(Frame& frame, std::size_t i, std::uint32_t collective,
                                 Bytes bytes) {
  if (collective == none) return {};
  const OpWork& work = frame.work->ops[i];
  const bool gathers = collective == work.gather_beside;
  Value whole = tensors_.allocate(bytes);
  whole.ready =
      emit_.tensor_collective(frame, i, collective, gathers ? work.gather_name : work.sum_name,
                              gathers ? Action::gather_input : Action::sum_output);
  builder_.writes(whole.buffer, Role::output);
  tensors_.wait_for(whole);
  return whole;
}

Value BlockForward::forward_linear(Frame& frame, std::size_t i, Value x) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  const bool again = frame.replay != nullptr && !work.products_again.empty();
  wait_before_mlp(work);
  if (again && frame.kept->has_output_in_block(i)) return kept_output(frame, i, x);
  if (work.sliced_forward.exists())
    return parts_.sliced.forward_sliced(frame, i, again ? work.sliced_again : work.sliced_forward,
                                        x);
  if (work.buffers.exchange_input != none)
    return parts_.user_buffers.forward_exchanged(frame, i, x);
  if (work.buffers.scatter_part != none) return parts_.user_buffers.forward_scattered(frame, i, x);
  const Value input = op.gathers_input ? gather_input(frame, i, x) : x;
  tensors_.wait_for(input);
  emit_.encode_operands(frame, i, input);
  Value out = tensors_.allocate(op.whole_output);
  builder_.tensors(out.buffer, op.products);
  const std::vector<std::uint32_t>& products = again ? work.products_again : work.products;
  for (std::size_t product = 0; product + 1 < products.size(); ++product) {
    emit_.compute(frame, i, products[product], work.name, Action::forward);
    tensors_.read(input, Role::input);
    emit_.read_weight(frame, i);
    builder_.writes(out.buffer, Role::output);
  }
  out.ready = emit_.compute(frame, i, products.back(), work.name, Action::forward);
  if (op.adapter) tensors_.retain(input.buffer);
  if (op.gathers_input && !runs_.keeps_gathered_inputs) {
    tensors_.drop(input, Role::input);
  } else {
    kept_.keep_or_free(frame, i, input);
  }
  emit_.read_weight(frame, i);
  builder_.writes(out.buffer, Role::output);
  const bool ends = frame.ends_in_adapter_of(i);
  if (ends) tensors_.drop(std::exchange(out, {}), Role::output);
  if (op.adapter) {
    TapeValues values{input, out};
    out = parts_.tapes.play(frame, i, ends ? op.adapter->forward_to_end : op.adapter->forward,
                            values);
  }
  if (ends) return out;
  if (work.gather_output != none) return gather_output(frame, i, out);
  return op.sums_output ? sum_over_tensor(frame, i, out) : out;
}

Value BlockForward::gather_input(Frame& frame, std::size_t i, const Value& x) {
  const OpWork& work = frame.work->ops[i];
  if (x.ready.value != none) builder_.wait(Stream::tensor_comm, x.ready);
  Value whole = tensors_.allocate(frame.shape->ops[i].whole_input);
  whole.ready =
      emit_.tensor_collective(frame, i, work.gather_input, work.gather_name, Action::gather_input);
  if (runs_.keeps_gathered_inputs) {
    tensors_.drop(x, Role::input);
  } else {
    kept_.keep_or_free(frame, i, x);
  }
  builder_.writes(whole.buffer, Role::output);
  emit_.reorder(frame, i, work.reorder_input, whole);
  return whole;
}

// The output of all tensor ranks on each of them.
Value BlockForward::gather_output(Frame& frame, std::size_t i, Value own) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  Value parts = tensors_.allocate(op.gathered_output);
  parts.ready = emit_.tensor_collective(frame, i, work.gather_output, work.gather_name,
                                        Action::gather_output);
  tensors_.drop(own, Role::input);
  builder_.writes(parts.buffer, Role::output);
  tensors_.wait_for(parts);
  Value whole = tensors_.allocate(op.gathered_output);
  whole.ready = emit_.compute(frame, i, work.join_output, work.name, Action::join_output);
  tensors_.drop(parts, Role::input);
  builder_.writes(whole.buffer, Role::output);
  return whole;
}

// Recompute::operators: an output that was kept whole stands for the operator and what sums it. Its
// weight gradient may want the input of all tokens, which was not kept.
Value BlockForward::kept_output(Frame& frame, std::size_t i, Value x) {
  const OpWork& work = frame.work->ops[i];
  if (frame.shape->ops[i].gathers_input && runs_.keeps_gathered_inputs)
    x = gather_input(frame, i, x);
  tensors_.wait_for(x);
  Value out = tensors_.allocate(frame.shape->ops[i].output);
  out.ready = emit_.compute(frame, i, work.products_again.front(), work.name, Action::forward);
  kept_.keep_or_free(frame, i, x);
  emit_.read_weight(frame, i);
  builder_.writes(out.buffer, Role::output);
  kept_.keep_output(frame, i, out);
  return out;
}

// A partial sum becomes the output: in place, or scattered over the tokens.
Value BlockForward::sum_over_tensor(const Frame& frame, std::size_t i, Value partial) {
  const OpWork& work = frame.work->ops[i];
  emit_.reorder(frame, i, work.reorder_output, partial);
  const OpId done =
      emit_.tensor_collective(frame, i, work.sum_output, work.sum_name, Action::sum_output);
  if (!frame.shape->ops[i].scatters) {
    builder_.writes(partial.buffer, Role::output);
    partial.ready = done;
    return partial;
  }
  tensors_.drop(partial, Role::input);
  Value out = tensors_.allocate(frame.shape->ops[i].output);
  builder_.writes(out.buffer, Role::output);
  out.ready = done;
  return out;
}

}  // namespace sim::lowering
