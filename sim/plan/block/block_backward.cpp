#include "sim/plan/block/block_backward.hpp"

#include <utility>

namespace sim::lowering {

Value BlockBackward::backward_block(Frame& frame, Value gradient) {
  if (layout_.overlap_shared_experts && parts_.places(frame).has_shared())
    return backward_beside_shared(frame, gradient);
  return backward_ops(frame, gradient, {0, frame.shape->ops.size()});
}

// Autograd goes back through the shared experts as it went forward: each half beside the exchange
// of its place.
Value BlockBackward::backward_beside_shared(Frame& frame, Value gradient) {
  ExpertPass& experts = parts_.experts;
  const ExpertPlaces at = parts_.places(frame);
  Value shared = backward_ops(frame, gradient, {at.shared_sum, frame.shape->ops.size()});
  Value sent = std::exchange(branches_.gradient_past[at.shared], {});
  sent = experts.exchange_to_experts(frame, at.combine,
                                     experts.leave_for_experts(frame, at.combine, sent));
  shared = backward_ops(frame, shared, {at.shared_down, at.shared_sum});
  sent = backward_ops(frame, experts.arrive_at_experts(frame, at.combine, sent),
                      {at.dispatch + 1, at.combine});
  sent = experts.exchange_from_experts(frame, at.dispatch,
                                       experts.leave_experts(frame, at.dispatch, sent));
  backward_ops(frame, shared, {at.shared, at.shared_down});
  return backward_ops(frame, experts.arrive_from_experts(frame, at.dispatch, sent),
                      {0, at.dispatch});
}

Value BlockBackward::backward_ops(Frame& frame, Value gradient, OpRange range) {
  for (std::size_t i = range.end; i-- > range.begin;) {
    if (frame.replay == nullptr) again_.run_before(frame, i);
    const Replay* own = frame.kept->replay_at(i);
    const bool in_pieces = own != nullptr && own != frame.replay && own->pieces > 1;
    const std::size_t first = in_pieces ? own->ops.front() : i;
    const auto back = [&](const Value& from) {
      return in_pieces ? backward_pieces(frame, *own, from) : backward_op(frame, i, from);
    };
    const int from = frame.shape->ops[first].op->starts_from;
    if (from < 0 || frame.replay != nullptr) {
      gradient = back(gradient);
    } else {
      // Here the branch ends: on with the gradient that went past it.
      const Value past = std::exchange(branches_.gradient_past[first], {});
      branches_.lent_gradient[static_cast<std::size_t>(from)] = back(gradient);
      gradient = past;
    }
    if (in_pieces) i = first;
  }
  return gradient;
}

// The gradient of a residual sum also goes past the branch, to the operator that begins it.
void BlockBackward::pass_branch(const Frame& frame, std::size_t i, const Value& gradient) {
  const int first = frame.shape->ops[i].op->residual_of;
  if (first < 0 || !gradient.exists()) return;
  // Past a second branch goes what the operator before it has made.
  const bool second = frame.shape->ops[static_cast<std::size_t>(first)].op->starts_from >= 0;
  if (!second && !needs_input_gradient(frame, static_cast<std::size_t>(first))) return;
  tensors_.retain(gradient.buffer);
  branches_.gradient_past[static_cast<std::size_t>(first)] = gradient;
}

Value BlockBackward::backward_op(Frame& frame, std::size_t i, Value gradient) {
  switch (frame.shape->ops[i].op->kind) {
    case ModelOpKind::linear:
      return linears_.backward_linear(frame, i, gradient);
    case ModelOpKind::cross_entropy:
      return backward_loss(frame, i);
    case ModelOpKind::router:
      return parts_.experts.backward_router(frame, i, gradient);
    case ModelOpKind::dispatch:
      return parts_.experts.bring_from_experts(frame, i, gradient);
    case ModelOpKind::combine:
      return parts_.experts.send_to_experts(frame, i, gradient);
    default:
      return backward_kernel(frame, i, gradient);
  }
}

Value BlockBackward::backward_kernel(Frame& frame, std::size_t i, Value gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  if (op.op->kind == ModelOpKind::embedding && work.backward == none)
    return end_at_frozen_table(frame, i, gradient);
  if (work.gather_gradient != none) gradient = linears_.gather_gradient(frame, i, gradient);
  pass_branch(frame, i, gradient);
  if (work.backward == none) {
    kept_.free_saved(frame.saved[i]);
    reduction_.gradient_ready(frame, i);
    return gradient;
  }
  if (op.whole) {
    TapeValues values{};
    values[tape_value::gradient] = gradient;
    return parts_.tapes.play(frame, i, op.whole->backward, values);
  }
  Value residual;
  std::swap(residual, branches_.gradient_past[i]);
  tensors_.wait_for(gradient);
  tensors_.wait_for(residual);
  const OpId done = emit_.compute(frame, i, work.backward, work.name, Action::backward);
  const Place& own = store_.parameters[site(frame, i)].vector();
  // A table that was added takes no part in the gradient of the sum.
  const bool adds_table = op.op->kind == ModelOpKind::elementwise && op.op->weights > 0;
  const bool in_place = op.op->in_place && gradient.exists();
  if (adds_table || in_place) {
    tensors_.read(gradient, Role::gradient);
  } else {
    tensors_.drop(gradient, Role::gradient);
  }
  tensors_.drop(residual, Role::residual_gradient);
  if (!adds_table && op.op->kind != ModelOpKind::embedding) emit_.read_weight(frame, i);
  kept_.free_saved(frame.saved[i]);
  parts_.experts.weigh_choices_backward(frame, i);
  Value out;
  if (adds_table || in_place) {
    out = gradient;
    if (in_place) builder_.writes(out.buffer, Role::input_gradient);
  } else if (needs_input_gradient(frame, i) && op.input.count() > 0) {
    out = tensors_.allocate(op.input);
    builder_.writes(out.buffer, Role::input_gradient);
  }
  if (!adds_table) out.ready = done;
  // The gradient of a table is dense before it is added to that of the step.
  if (op.op->kind == ModelOpKind::embedding) sums_.take_temporary_placeholder(own);
  sums_.add_gradient(frame, i, own, sums_.write_gradient(frame, own));
  reduction_.gradient_ready(frame, i);
  return work.borrower != none ? linears_.add_residual_gradient(frame, i, out) : out;
}

// Layout::lora_rank: nothing in front of it is trained. If there is a gradient, the kernel that
// made it was the last one (needs_input_gradient()).
Value BlockBackward::end_at_frozen_table(Frame& frame, std::size_t i, const Value& gradient) {
  tensors_.drop(gradient, Role::input_gradient);
  kept_.free_saved(frame.saved[i]);
  return {};
}

Value BlockBackward::backward_loss(Frame& frame, std::size_t i) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  Saved& saved = frame.saved[i];
  Value out;
  if (op.op->in_place) {
    out.buffer = saved.input;
    tensors_.retain(out.buffer);
  } else {
    out = tensors_.allocate(op.input);
  }
  out.ready = emit_.compute(frame, i, work.backward, work.name, Action::backward);
  if (op.backward_scratch.count() > 0) {
    const BufferId scratch = tensors_.allocate_buffer(op.backward_scratch);
    builder_.writes(scratch, Role::workspace);
    builder_.frees(scratch, Role::workspace);
  }
  kept_.free_loss(saved);
  builder_.writes(out.buffer, Role::input_gradient);
  return out;
}

// A trainer that logs more than its loss computes each of these metrics from the logits when the
// backward pass is done (Composer, composer/trainer/trainer.py, _train_microbatch and
// _eval_train_metrics). Their time is counted with the loss.
void BlockBackward::take_loss_metrics(const Chunk& chunk) {
  const int metrics = runs_.loss_metrics;
  const StageBlock& last = context_.blocks[chunk.first_block + chunk.blocks - 1];
  if (metrics == 0 || !last.is_output) return;
  for (const ShardedOp& op : model_.blocks[last.shape].ops) {
    if (op.op->kind != ModelOpKind::cross_entropy) continue;
    const Bytes logits{op.input.count() / bytes_of(layout_.activation_dtype) *
                       bytes_of(DType::fp32)};
    builder_.takes(loss_metrics(logits, metrics));
  }
}

}  // namespace sim::lowering
