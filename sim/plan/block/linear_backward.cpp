#include "sim/plan/block/linear_backward.hpp"

#include <utility>

namespace sim::lowering {

// With sequence parallelism the gradient of a scattered output is gathered.
Value LinearBackward::gather_gradient(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  if (gradient.ready.value != none) builder_.wait(Stream::tensor_comm, gradient.ready);
  Value whole = tensors_.allocate(frame.shape->ops[i].whole_output);
  whole.ready = emit_.tensor_collective(frame, i, work.gather_gradient, work.gather_name,
                                        Action::gather_gradient);
  tensors_.drop(gradient, Role::input);
  builder_.writes(whole.buffer, Role::output);
  emit_.reorder(frame, i, work.reorder_output, whole);
  return whole;
}

// Only a slice of the tokens of a column's input was kept: the weight gradient needs all of them
// (Korthikanti et al. 2022, section 4.2.2).
Value LinearBackward::gather_saved_input(Frame& frame, std::size_t i) {
  const OpWork& work = frame.work->ops[i];
  const bool frozen = work.weight_gradients.empty();
  if (work.gather_input == none || runs_.keeps_gathered_inputs || frozen) return {};
  const Bytes bytes = frame.shape->ops[i].whole_input;
  if (work.buffers.exists()) parts_.user_buffers.place_saved_input(frame, i);
  Value whole = work.buffers.exists() ? tensors_.in_buffer(work.buffers.gathered, bytes)
                                      : tensors_.allocate(bytes);
  whole.ready =
      emit_.tensor_collective(frame, i, work.gather_input, work.gather_name, Action::gather_input);
  tensors_.release(frame.saved[i].input, Role::input);
  tensors_.release(frame.saved[i].extra, Role::saved);  // kept in 8 bits
  builder_.writes(whole.buffer, Role::output);
  return whole;
}

// A compiler's collectives are waited for where they were called (torch/distributed/
// _functional_collectives.py).
bool LinearBackward::overlaps_wgrad() const {
  return layout_.overlap_tensor_wgrad && !runs_.symmetric_memory;
}

// With Megatron-LM's --delay-wgrad-compute, only layers: the head is no linear of Transformer
// Engine.
bool LinearBackward::defers_weight_gradients(const Frame& frame) const {
  return splits_backward(layout_.schedule) ||
         (layout_.delay_weight_gradients && frame.block->layer >= 0);
}

Value LinearBackward::backward_linear(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  const bool split = defers_weight_gradients(frame);
  // A row's bias was added to the tokens that the rank holds: the gradient of those is its.
  Value own_tokens;
  if (work.own_output != none) gradient = own_output(frame, i, gradient);
  if (work.spread_gradient != none) gradient = scatter_output_gradient(frame, i, gradient);
  if (work.gather_gradient != none && work.backward != none) {
    own_tokens = gradient;
    tensors_.retain(gradient.buffer);
  }
  const bool in_slices = work.gather_gradient != none && work.sliced_gradient.exists();
  if (in_slices || work.buffers.exchange_gradient != none) {
    const Value out = in_slices ? parts_.sliced.gathered_gradient(frame, i, gradient)
                                : parts_.user_buffers.backward_exchanged(frame, i, gradient);
    parts_.user_buffers.transpose_gradient(frame, i, gradient);
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
  tensors_.wait_for(gradient);
  emit_.encode_gradient(frame, i, gradient);
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
Value LinearBackward::add_residual_gradient(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  for (std::vector<Value>* others : {&branches_.gradient_past, &branches_.lent_gradient}) {
    const Value other = std::exchange((*others)[i], {});
    if (!other.exists() || work.add_gradient == none) continue;
    tensors_.wait_for(gradient);
    tensors_.wait_for(other);
    gradient.ready = emit_.compute(frame, work.branch_sum, work.add_gradient,
                                   work.add_gradient_name, Action::backward);
    tensors_.read(gradient, Role::gradient);
    tensors_.drop(other, Role::residual_gradient);
    builder_.writes(gradient.buffer, Role::input_gradient);
  }
  return gradient;
}

// The gradient of all logits is there: a copy of the rank's own.
Value LinearBackward::own_output(Frame& frame, std::size_t i, Value gradient) {
  const OpWork& work = frame.work->ops[i];
  tensors_.wait_for(gradient);
  Value own = tensors_.allocate(frame.shape->ops[i].whole_output);
  own.ready = emit_.compute(frame, i, work.own_output, work.gradient_name, Action::own_output);
  tensors_.drop(gradient, Role::input);
  builder_.writes(own.buffer, Role::output);
  return own;
}

// Every tensor rank took a part of the output of all: what they make of it is summed.
Value LinearBackward::scatter_output_gradient(Frame& frame, std::size_t i, Value gradient) {
  const ShardedOp& op = frame.shape->ops[i];
  const OpWork& work = frame.work->ops[i];
  tensors_.wait_for(gradient);
  Value all = tensors_.allocate(op.gathered_output);
  all.ready =
      emit_.compute(frame, i, work.spread_gradient, work.gradient_name, Action::spread_gradient);
  tensors_.drop(gradient, Role::input);
  builder_.writes(all.buffer, Role::output);
  Value own = tensors_.allocate(op.whole_output);
  own.ready = emit_.tensor_collective(frame, i, work.scatter_gradient, work.sum_name,
                                      Action::scatter_output_gradient);
  tensors_.drop(all, Role::input);
  builder_.writes(own.buffer, Role::output);
  return own;
}

// If a linear is several products, each has an input gradient of its own. These are added: partial
// sums before they are scattered, else when each has been summed over the tensor group (autograd:
// every product reads a copy of the input, whose backward pass is the sum).
Value LinearBackward::input_gradient(Frame& frame, std::size_t i, const Value& gradient) {
  if (frame.work->ops[i].sliced_gradient.exists())
    return parts_.sliced.scattered_gradient(frame, i, gradient);
  const bool scattered = frame.shape->ops[i].scatters;
  const std::optional<LowRankAdapter>& adapter = frame.shape->ops[i].adapter;
  Value adapted;
  if (adapter) {
    TapeValues values{};
    values[tape_value::gradient] = gradient;
    adapted = parts_.tapes.play(frame, i, adapter->backward, values);
  }
  const int products = frame.shape->ops[i].products;
  Value out = product_gradient(frame, i, gradient, products == 1);
  if (adapter) {
    TapeValues values{adapted};
    values[tape_value::input_gradient] = out;
    out = parts_.tapes.play(frame, i, adapter->add_gradient, values);
  }
  if (!scattered) out = sum_gradient(frame, i, out);
  for (int product = 1; product < products; ++product) {
    Value part = product_gradient(frame, i, gradient, product + 1 == products);
    if (!scattered) part = sum_gradient(frame, i, part);
    out = add_product(frame, i, out, part);
  }
  return scattered ? sum_gradient(frame, i, out) : out;
}

Value LinearBackward::add_product(Frame& frame, std::size_t i, Value sum, Value part) {
  const OpWork& work = frame.work->ops[i];
  tensors_.wait_for(sum);
  tensors_.wait_for(part);
  sum.ready =
      emit_.compute(frame, i, work.add_products, work.gradient_name, Action::add_product_gradient);
  tensors_.drop(part, Role::input);
  builder_.writes(sum.buffer, Role::input_gradient);
  return sum;
}

Value LinearBackward::product_gradient(Frame& frame, std::size_t i, const Value& gradient,
                                       bool last) {
  const OpWork& work = frame.work->ops[i];
  const ShardedOp& op = frame.shape->ops[i];
  // A gradient of one token of each sequence: those of the other tokens are zero, and have their
  // place.
  const bool spread = op.op->once_per_sequence && op.op->function == Function::linear;
  const Bytes bytes = op.whole_input * (spread ? layout_.tokens_held() : 1);
  Value out = work.buffers.exists() ? tensors_.in_buffer(work.buffers.summed, bytes)
                                    : tensors_.allocate(bytes);
  for (std::size_t k = 0; k < work.input_gradients.size(); ++k) {
    out.ready = emit_.compute(frame, i, work.input_gradients[k], work.gradient_name,
                              Action::input_gradient);
    // The kernel of the weight's gradient frees it; where there is none, the last kernel does.
    if (last && work.weight_gradients.empty() && k + 1 == work.input_gradients.size())
      tensors_.drop(gradient, Role::gradient);
    else
      tensors_.read(gradient, Role::gradient);
    emit_.read_weight(frame, i);
    builder_.writes(out.buffer, Role::input_gradient);
  }
  if (work.rescale_input_gradient == none) return out;
  out.ready = emit_.compute(frame, i, work.rescale_input_gradient, work.gradient_name,
                            Action::rescale_gradient);
  builder_.writes(out.buffer, Role::input_gradient);
  return out;
}

Value LinearBackward::sum_gradient(const Frame& frame, std::size_t i, Value partial) {
  const OpWork& work = frame.work->ops[i];
  emit_.reorder(frame, i, work.sum_products, partial, Action::sum_products);
  if (work.sum_gradient == none) return partial;
  emit_.reorder(frame, i, work.reorder_input, partial);
  const OpId done =
      emit_.tensor_collective(frame, i, work.sum_gradient, work.sum_name, Action::sum_gradient);
  if (!frame.shape->ops[i].scatters) {
    builder_.writes(partial.buffer, Role::output);
    partial.ready = done;
    return partial;
  }
  tensors_.drop(partial, Role::input);
  Value scattered = tensors_.allocate(frame.shape->ops[i].input);
  builder_.writes(scattered.buffer, Role::output);
  scattered.ready = done;
  return scattered;
}

void LinearBackward::weight_gradient(Frame& frame, std::size_t i, const Value& gradient,
                                     const Value& own_tokens, const Value& gathered) {
  const OpWork& work = frame.work->ops[i];
  const Parameters& parameters = store_.parameters[site(frame, i)];
  if (work.weight_gradients.empty()) return end_frozen(frame, i);
  if (gathered.exists()) builder_.wait(Stream::compute, gathered.ready);
  if (work.backward != none) {
    emit_.compute(frame, i, work.backward, work.bias_name, Action::bias_gradient);
    if (own_tokens.exists()) {
      tensors_.drop(own_tokens, Role::gradient);
    } else {
      tensors_.read(gradient, Role::gradient);
    }
    builder_.writes(store_.buckets[parameters.vector().bucket].gradient, Role::weight_gradient);
  }
  if (work.encode_saved != none) {
    emit_.compute(frame, i, work.encode_saved, work.encode_name, Action::encode);
    tensors_.read(gathered, Role::input);
    const Saved& saved = frame.saved[i];
    if (!gathered.exists() && saved.input.value != none) builder_.reads(saved.input, Role::input);
    if (!gathered.exists() && saved.extra.value != none) builder_.reads(saved.extra, Role::saved);
  }
  BufferId own{none};
  for (std::size_t product = 0; product + 1 < work.weight_gradients.size(); ++product) {
    emit_.compute(frame, i, work.weight_gradients[product], work.weight_name,
                  Action::weight_gradient);
    tensors_.read(gathered, Role::input);
    if (frame.saved[i].input.value != none)
      builder_.reads(frame.saved[i].input, Role::input);
    else if (!gathered.exists() && frame.saved[i].extra.value != none)  // in 8 bits
      builder_.reads(frame.saved[i].extra, Role::saved);
    tensors_.read(gradient, Role::gradient);
    own = sums_.write_gradient(frame, parameters.matrix(), own);
  }
  emit_.compute(frame, i, work.weight_gradients.back(), work.weight_name, Action::weight_gradient);
  if (!sums_.has_kept_placeholder(*frame.shape->ops[i].op))
    sums_.take_temporary_placeholder(parameters.matrix());
  tensors_.drop(gathered, Role::input);
  tensors_.drop(gradient, Role::gradient);
  kept_.free_saved(frame.saved[i]);
  own = sums_.write_gradient(frame, parameters.matrix(), own);
  if (work.rescale_weight_gradient != none) {
    emit_.compute(frame, i, work.rescale_weight_gradient, work.weight_name,
                  Action::rescale_gradient);
    own = sums_.write_gradient(frame, parameters.matrix(), own);
  }
  sums_.add_gradient(frame, i, parameters.matrix(), own);
  reduction_.gradient_ready(frame, i);
}

// Layout::lora_rank: the weight has no gradient, those of an adapter are done.
void LinearBackward::end_frozen(Frame& frame, std::size_t i) {
  kept_.free_saved(frame.saved[i]);
  reduction_.gradient_ready(frame, i);
}

void LinearBackward::deferred_weight_gradients(Frame& frame, OpRange range) {
  for (std::size_t i = range.end; i-- > range.begin;) {
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
