// Gradients: of inputs first, then of weights, so that what other ranks wait for leaves early.
#include <utility>

#include "sim/plan/lowering/stage_lowering.hpp"

namespace sim::lowering {

void StageLowering::free_saved(Saved& saved) {
  let_go(saved.input, Role::input);
  let_go(saved.extra, Role::saved);
  let_go(saved.core, Role::saved);
  let_go(saved.output, Role::saved_output);
  let_go(saved.keys, Role::keys);
}

// The first operator of the model has nobody to hand a gradient to.
bool StageLowering::needs_input_gradient(const Frame& frame, std::size_t i) const {
  return i > 0 || !frame.block->is_first;
}

Value StageLowering::backward_block(Frame& frame, Value gradient) {
  for (std::size_t i = frame.shape->ops.size(); i-- > 0;) {
    const int from = frame.shape->ops[i].op->starts_from;
    if (from < 0) {
      gradient = backward_op(frame, i, gradient);
      continue;
    }
    // Here the branch ends: on with the gradient that went past it.
    const Value past = std::exchange(gradient_past_branch_[i], {});
    lent_gradient_[static_cast<std::size_t>(from)] = backward_op(frame, i, gradient);
    gradient = past;
  }
  return gradient;
}

// The gradient of a residual sum also goes past the branch, to the operator that begins it.
void StageLowering::pass_branch(const Frame& frame, std::size_t i, const Value& gradient) {
  const int first = frame.shape->ops[i].op->residual_of;
  if (first < 0 || !gradient.exists()) return;
  if (!needs_input_gradient(frame, static_cast<std::size_t>(first))) return;
  hold(gradient.buffer);
  gradient_past_branch_[static_cast<std::size_t>(first)] = gradient;
}

Value StageLowering::backward_op(Frame& frame, std::size_t i, Value gradient) {
  switch (frame.shape->ops[i].op->kind) {
    case ModelOpKind::linear:
      return backward_linear(frame, i, gradient);
    case ModelOpKind::cross_entropy:
      return backward_loss(frame, i);
    case ModelOpKind::router:
      return backward_router(frame, i, gradient);
    case ModelOpKind::dispatch:
      return bring_from_experts(frame, i, gradient);
    case ModelOpKind::combine:
      return send_to_experts(frame, i, gradient);
    default:
      return backward_kernel(frame, i, gradient);
  }
}

Value StageLowering::backward_kernel(Frame& frame, std::size_t i, Value gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  if (work.gather_gradient != none) gradient = gather_gradient(frame, i, gradient);
  pass_branch(frame, i, gradient);
  if (work.backward == none) {
    free_saved(frame.saved[i]);
    gradient_ready(frame, i);
    return gradient;
  }
  if (work.context.exists()) return backward_context(frame, i, gradient);
  recompute_attention(frame, i);
  Value residual;
  std::swap(residual, gradient_past_branch_[i]);
  wait_for(gradient);
  wait_for(residual);
  const OpId done = compute(frame, i, work.backward, work.name, Action::backward);
  const Place& own = parameters_[site(frame, i)].own;
  // A table that was added takes no part in the gradient of the sum.
  const bool adds_table = op.op->kind == ModelOpKind::elementwise && op.op->weights > 0;
  const bool in_place = op.op->in_place && gradient.exists();
  if (adds_table || in_place) {
    read(gradient, Role::gradient);
  } else {
    drop(gradient, Role::gradient);
  }
  drop(residual, Role::residual_gradient);
  if (!adds_table && op.op->kind != ModelOpKind::embedding) read_weight(frame, i);
  free_saved(frame.saved[i]);
  weigh_choices_backward(frame, i);
  Value out;
  if (adds_table || in_place) {
    out = gradient;
    if (in_place) builder_.writes(out.buffer, Role::input_gradient);
  } else if (needs_input_gradient(frame, i) && op.input.count() > 0) {
    out = fresh(op.input);
    builder_.writes(out.buffer, Role::input_gradient);
  }
  if (!adds_table) out.ready = done;
  // The gradient of a table is dense before it is added to that of the step.
  if (op.op->kind == ModelOpKind::embedding) take_temporary_placeholder(own);
  add_gradient(frame, i, own, write_gradient(frame, own));
  gradient_ready(frame, i);
  return out;
}

Value StageLowering::backward_loss(Frame& frame, std::size_t i) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  Saved& saved = frame.saved[i];
  Value out;
  if (op.op->in_place) {
    out.buffer = saved.input;
    hold(out.buffer);
  } else {
    out = fresh(op.input);
  }
  out.ready = compute(frame, i, work.backward, work.name, Action::backward);
  if (op.backward_scratch.count() > 0) {
    const BufferId scratch = activation(op.backward_scratch);
    builder_.writes(scratch, Role::workspace);
    builder_.frees(scratch, Role::workspace);
  }
  free_saved(saved);
  let_go(saved.target_logit, Role::target_logit);
  let_go(saved.exponential_sum, Role::exponential_sum);
  builder_.writes(out.buffer, Role::input_gradient);
  return out;
}

// A trainer that logs more than its loss computes each of these metrics from the logits when the
// backward pass is done (Composer, composer/trainer/trainer.py, _train_microbatch and
// _eval_train_metrics). Their time is counted with the loss.
void StageLowering::take_loss_metrics(const Chunk& chunk) {
  const int metrics = model_.model->execution.loss_metrics;
  const StageBlock& last = blocks_[chunk.first_block + chunk.blocks - 1];
  if (metrics == 0 || !last.is_output) return;
  for (const ShardedOp& op : model_.blocks[last.shape].ops) {
    if (op.op->kind != ModelOpKind::cross_entropy) continue;
    const Bytes logits{op.input.count() / bytes_of(layout_.activation_dtype) *
                       bytes_of(DType::fp32)};
    builder_.takes(loss_metrics(logits, metrics));
  }
}

bool StageLowering::recomputes_attention(const ShardedOp& op) const {
  return layout_.recompute == Recompute::selective && op.attention_saved.count() > 0 &&
         !is_flash(layout_.attention);
}

// Selective recomputation (Korthikanti et al. 2022, section 5): the attention core of an unfused
// kernel is run again from the saved Q, K and V. A flash kernel has no core to drop.
void StageLowering::recompute_attention(Frame& frame, std::size_t i) {
  const ShardedOp& op = frame.shape->ops[i];
  if (!recomputes_attention(op)) return;
  Frame again = frame;
  again.pass = Pass::recompute;
  Saved& saved = frame.saved[i];
  compute(again, i, frame.work->ops[i].forward, frame.work->ops[i].name, Action::forward);
  if (saved.input.value != none) builder_.reads(saved.input, Role::input);
  read_weight(frame, i);  // sinks
  saved.core = activation(op.attention_saved);
  builder_.writes(saved.core, Role::saved);
}

void StageLowering::encode_gradient(const Frame& frame, std::size_t i, const Value& gradient) {
  const OpWork& work = frame.work->ops[i];
  if (work.encode_gradient == none) return;
  compute(frame, i, work.encode_gradient, work.encode_name, Action::encode);
  read(gradient, Role::gradient);
  if (work.encode_saved_weight == none || !needs_input_gradient(frame, i)) return;
  compute(frame, i, work.encode_saved_weight, work.encode_name, Action::encode);
  read_weight(frame, i);
}

// With sequence parallelism the gradient of a scattered output is gathered.
Value StageLowering::gather_gradient(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  if (gradient.ready.value != none) builder_.wait(Stream::tensor_comm, gradient.ready);
  Value whole = fresh(frame.shape->ops[i].whole_output);
  whole.ready =
      tensor_collective(frame, i, work.gather_gradient, work.gather_name, Action::gather_gradient);
  drop(gradient, Role::input);
  builder_.writes(whole.buffer, Role::output);
  reorder(frame, i, work.reorder_output, whole);
  return whole;
}

// Only a slice of the tokens of a column's input was kept: the weight gradient needs all of them
// (Korthikanti et al. 2022, section 4.2.2).
Value StageLowering::gather_saved_input(Frame& frame, std::size_t i) {
  const OpWork& work = frame.work->ops[i];
  if (work.gather_input == none || model_.model->execution.keeps_gathered_inputs) return {};
  const Bytes bytes = frame.shape->ops[i].whole_input;
  if (work.buffers.exists()) place_saved_input(frame, i);
  Value whole = work.buffers.exists() ? in_user_buffer(work.buffers.gathered, bytes) : fresh(bytes);
  whole.ready =
      tensor_collective(frame, i, work.gather_input, work.gather_name, Action::gather_input);
  let_go(frame.saved[i].input, Role::input);
  let_go(frame.saved[i].extra, Role::saved);  // kept in 8 bits
  builder_.writes(whole.buffer, Role::output);
  return whole;
}

// A compiler's collectives are waited for where they were called (torch/distributed/
// _functional_collectives.py).
bool StageLowering::overlaps_wgrad() const {
  return layout_.overlap_tensor_wgrad && !model_.model->execution.symmetric_memory;
}

Value StageLowering::backward_linear(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  const bool split = splits_backward(layout_.schedule);
  // A row's bias was added to the tokens that the rank holds: the gradient of those is its.
  Value own_tokens;
  if (work.own_output != none) gradient = own_output(frame, i, gradient);
  if (work.spread_gradient != none) gradient = scatter_output_gradient(frame, i, gradient);
  if (work.gather_gradient != none && work.backward != none) {
    own_tokens = gradient;
    hold(gradient.buffer);
  }
  const bool in_slices = work.gather_gradient != none && work.sliced_gradient.exists();
  if (in_slices || work.buffers.exchange_gradient != none) {
    const Value out =
        in_slices ? gathered_gradient(frame, i, gradient) : backward_exchanged(frame, i, gradient);
    transpose_gradient(frame, i, gradient);
    weight_gradient(frame, i, gradient, own_tokens, {});
    return add_residual_gradient(frame, i, out);
  }
  if (work.gather_gradient != none) gradient = gather_gradient(frame, i, gradient);
  // Megatron-LM, core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication:
  // the input is gathered beside the input-gradient product, and the input gradient is reduced
  // beside the weight-gradient product.
  const Value gathered = split ? Value{} : gather_saved_input(frame, i);
  const bool beside = overlaps_wgrad() || work.buffers.exists();
  if (!beside && gathered.exists()) {
    builder_.wait(Stream::compute, gathered.ready);
  }
  wait_for(gradient);
  encode_gradient(frame, i, gradient);
  Value out;
  if (needs_input_gradient(frame, i)) out = input_gradient(frame, i, gradient);
  if (!beside && out.exists()) builder_.wait(Stream::compute, out.ready);
  if (split) {
    frame.saved[i].gradient = gradient.buffer;
    frame.saved[i].bias_gradient = own_tokens.buffer;
  } else {
    weight_gradient(frame, i, gradient, own_tokens, gathered);
  }
  return add_residual_gradient(frame, i, out);
}

// Post-norm: what went past the branch is added to the gradient of the branch's input. So is what a
// second branch makes of that input.
Value StageLowering::add_residual_gradient(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  for (std::vector<Value>* others : {&gradient_past_branch_, &lent_gradient_}) {
    const Value other = std::exchange((*others)[i], {});
    if (!other.exists() || work.add_gradient == none) continue;
    wait_for(gradient);
    wait_for(other);
    gradient.ready = compute(frame, work.branch_sum, work.add_gradient, work.add_gradient_name,
                             Action::backward);
    read(gradient, Role::gradient);
    drop(other, Role::residual_gradient);
    builder_.writes(gradient.buffer, Role::input_gradient);
  }
  return gradient;
}

// The gradient of all logits is there: a copy of the rank's own.
Value StageLowering::own_output(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  wait_for(gradient);
  Value own = fresh(frame.shape->ops[i].whole_output);
  own.ready = compute(frame, i, work.own_output, work.gradient_name, Action::own_output);
  drop(gradient, Role::input);
  builder_.writes(own.buffer, Role::output);
  return own;
}

// Every tensor rank took a part of the output of all: what they make of it is summed.
Value StageLowering::scatter_output_gradient(Frame& frame, std::size_t i, Value gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  wait_for(gradient);
  Value all = fresh(op.gathered_output);
  all.ready = compute(frame, i, work.spread_gradient, work.gradient_name, Action::spread_gradient);
  drop(gradient, Role::input);
  builder_.writes(all.buffer, Role::output);
  Value own = fresh(op.whole_output);
  own.ready = tensor_collective(frame, i, work.scatter_gradient, work.sum_name,
                                Action::scatter_output_gradient);
  drop(all, Role::input);
  builder_.writes(own.buffer, Role::output);
  return own;
}

// Of several products each has its own, which are added: partial sums before they are scattered,
// else when each has been summed over the tensor group (autograd: every product reads a copy of the
// input, whose backward pass is the sum).
Value StageLowering::input_gradient(Frame& frame, std::size_t i, const Value& gradient) {
  if (frame.work->ops[i].sliced_gradient.exists()) return scattered_gradient(frame, i, gradient);
  const bool scattered = layout_.sequence_parallel;
  Value out = product_gradient(frame, i, gradient);
  if (!scattered) out = sum_gradient(frame, i, out);
  for (int product = 1; product < frame.shape->ops[i].products; ++product) {
    Value part = product_gradient(frame, i, gradient);
    if (!scattered) part = sum_gradient(frame, i, part);
    out = add_product(frame, i, out, part);
  }
  return scattered ? sum_gradient(frame, i, out) : out;
}

Value StageLowering::add_product(Frame& frame, std::size_t i, Value sum, Value part) {
  const OpWork& work = frame.work->ops[i];
  wait_for(sum);
  wait_for(part);
  sum.ready =
      compute(frame, i, work.add_products, work.gradient_name, Action::add_product_gradient);
  drop(part, Role::input);
  builder_.writes(sum.buffer, Role::input_gradient);
  return sum;
}

Value StageLowering::product_gradient(Frame& frame, std::size_t i, const Value& gradient) {
  const OpWork& work = frame.work->ops[i];
  const Bytes bytes = frame.shape->ops[i].whole_input;
  Value out = work.buffers.exists() ? in_user_buffer(work.buffers.summed, bytes) : fresh(bytes);
  for (const std::uint32_t product : work.input_gradients) {
    out.ready = compute(frame, i, product, work.gradient_name, Action::input_gradient);
    read(gradient, Role::gradient);
    read_weight(frame, i);
    builder_.writes(out.buffer, Role::input_gradient);
  }
  if (work.rescale_input_gradient == none) return out;
  out.ready =
      compute(frame, i, work.rescale_input_gradient, work.gradient_name, Action::rescale_gradient);
  builder_.writes(out.buffer, Role::input_gradient);
  return out;
}

Value StageLowering::sum_gradient(const Frame& frame, std::size_t i, Value partial) {
  const OpWork& work = frame.work->ops[i];
  reorder(frame, i, work.sum_products, partial, Action::sum_products);
  if (work.sum_gradient == none) return partial;
  reorder(frame, i, work.reorder_input, partial);
  const OpId done =
      tensor_collective(frame, i, work.sum_gradient, work.sum_name, Action::sum_gradient);
  if (!layout_.sequence_parallel) {
    builder_.writes(partial.buffer, Role::output);
    partial.ready = done;
    return partial;
  }
  drop(partial, Role::input);
  Value scattered = fresh(frame.shape->ops[i].input);
  builder_.writes(scattered.buffer, Role::output);
  scattered.ready = done;
  return scattered;
}

void StageLowering::weight_gradient(Frame& frame, std::size_t i, const Value& gradient,
                                    const Value& own_tokens, const Value& gathered) {
  const OpWork& work = frame.work->ops[i];
  const Parameters& parameters = parameters_[site(frame, i)];
  if (gathered.exists()) builder_.wait(Stream::compute, gathered.ready);
  if (work.backward != none) {
    compute(frame, i, work.backward, work.bias_name, Action::bias_gradient);
    if (own_tokens.exists()) {
      drop(own_tokens, Role::gradient);
    } else {
      read(gradient, Role::gradient);
    }
    builder_.writes(buckets_[parameters.own.bucket].gradient, Role::weight_gradient);
  }
  if (work.encode_saved != none) {
    compute(frame, i, work.encode_saved, work.encode_name, Action::encode);
    read(gathered, Role::input);
    const Saved& saved = frame.saved[i];
    if (!gathered.exists() && saved.input.value != none) builder_.reads(saved.input, Role::input);
    if (!gathered.exists() && saved.extra.value != none) builder_.reads(saved.extra, Role::saved);
  }
  BufferId own{none};
  for (std::size_t product = 0; product + 1 < work.weight_gradients.size(); ++product) {
    compute(frame, i, work.weight_gradients[product], work.weight_name, Action::weight_gradient);
    read(gathered, Role::input);
    if (frame.saved[i].input.value != none) builder_.reads(frame.saved[i].input, Role::input);
    read(gradient, Role::gradient);
    own = write_gradient(frame, parameters.matrix(), own);
  }
  compute(frame, i, work.weight_gradients.back(), work.weight_name, Action::weight_gradient);
  if (!has_kept_placeholder(*frame.shape->ops[i].op))
    take_temporary_placeholder(parameters.matrix());
  drop(gathered, Role::input);
  drop(gradient, Role::gradient);
  free_saved(frame.saved[i]);
  own = write_gradient(frame, parameters.matrix(), own);
  if (work.rescale_weight_gradient != none) {
    compute(frame, i, work.rescale_weight_gradient, work.weight_name, Action::rescale_gradient);
    own = write_gradient(frame, parameters.matrix(), own);
  }
  add_gradient(frame, i, parameters.matrix(), own);
  gradient_ready(frame, i);
}

void StageLowering::deferred_weight_gradients(Frame& frame) {
  for (std::size_t i = frame.shape->ops.size(); i-- > 0;) {
    if (frame.shape->ops[i].op->kind != ModelOpKind::linear) continue;
    Saved& saved = frame.saved[i];
    const Value gathered = gather_saved_input(frame, i);
    Value gradient;
    std::swap(gradient.buffer, saved.gradient);
    Value own_tokens;
    std::swap(own_tokens.buffer, saved.bias_gradient);
    weight_gradient(frame, i, gradient, own_tokens, gathered);
  }
}

}  // namespace sim::lowering
