// The first and the last operators of a model: tables and loss.
#include "real/host/kernels_elementwise.hpp"
#include "real/host/model_ops.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Function;
using sim::Role;

TableSlice ModelOps::table_slice(const BoundOp& op, std::size_t elements) const {
  const std::int64_t width = op.model_op->out_features;
  const std::int64_t rows = static_cast<std::int64_t>(elements) / width;
  const bool sliced = op.model_op->split == sim::TensorSplit::vocabulary;
  return {.first = sliced ? tensor_rank_ * rows : 0, .rows = rows, .width = width};
}

// With sequence parallelism a rank holds a slice of the tokens of the micro-batch.
PositionShape ModelOps::positions(const BoundOp& op, std::size_t elements) const {
  const std::int64_t width = op.model_op->out_features;
  const std::int64_t tokens = static_cast<std::int64_t>(elements) / width;
  const bool sliced = layout_.sequence_parallel && tensor_ > 1;
  SIM_CHECK(tokens * (sliced ? tensor_ : 1) == state_.tokens, tokens, tensor_, state_.tokens);
  return {.first_token = sliced ? tensor_rank_ * tokens : 0,
          .tokens = tokens,
          .sequence = layout_.sequence_length,
          .width = width};
}

void ModelOps::table_forward_of(const BoundOp& op) {
  const std::span<const float> table = arena_.of(op, Role::weight);
  if (op.model_op->function == Function::lookup) {
    return lookup(table_slice(op, table.size()), state_.inputs_of(op.microbatch), table,
                  arena_.of(op, Role::output));
  }
  const std::span<float> out = in_place(op, Role::input, Role::output);
  add_positions(positions(op, out.size()), out, table, out);
}

void ModelOps::table_backward_of(const BoundOp& op) {
  const std::span<const float> gradient = arena_.of(op, Role::gradient);
  const std::span<float> to = arena_.of(op, Role::weight_gradient);
  if (op.model_op->function == Function::lookup) {
    return lookup_backward(table_slice(op, to.size()), state_.inputs_of(op.microbatch), gradient,
                           to, op.accumulate);
  }
  add_positions_backward(positions(op, gradient.size()), gradient, to, op.accumulate);
  // The gradient of a sum is handed on as it is.
  in_place(op, Role::gradient, Role::input_gradient);
}

ClassSlice ModelOps::class_slice(std::size_t logits) const {
  const std::int64_t width = static_cast<std::int64_t>(logits) / state_.tokens;
  return {.first = tensor_ > 1 ? tensor_rank_ * width : 0,
          .width = width,
          .classes = model_.vocabulary};
}

// The exponentials may take the place of the logits: then there is no input.
std::span<const float> ModelOps::logits_of(const BoundOp& op) {
  return arena_.of(op, op.operand(Role::input).exists() ? Role::input : Role::saved);
}

void ModelOps::loss_maximum_of(const BoundOp& op) {
  const std::span<const float> logits = logits_of(op);
  loss_maximum(class_slice(logits.size()), logits, arena_.of(op, Role::maximum));
}

void ModelOps::loss_exponentials_of(const BoundOp& op) {
  loss_exponentials_with(op, arena_.of(op, Role::maximum));
}

void ModelOps::loss_forward_of(const BoundOp& op) {
  const std::span<const float> logits = logits_of(op);
  maximum_.resize(static_cast<std::size_t>(state_.tokens));
  loss_maximum(class_slice(logits.size()), logits, maximum_);
  loss_exponentials_with(op, maximum_);
}

void ModelOps::loss_exponentials_with(const BoundOp& op, std::span<const float> maximum) {
  const std::span<const float> logits = logits_of(op);
  loss_exponentials(class_slice(logits.size()), logits, state_.targets_of(op.microbatch), maximum,
                    arena_.maybe(op, Role::saved), arena_.of(op, Role::target_logit),
                    arena_.of(op, Role::exponential_sum));
}

// The loss of a step is the mean over its micro-batches and their tokens; the mean over the
// data-parallel replicas is taken where gradients are reduced. The loss itself is read here, where
// the sums of all slices of the vocabulary have arrived.
void ModelOps::loss_backward_of(const BoundOp& op) {
  const std::span<const float> exponentials = arena_.of(op, Role::saved);
  const std::span<const float> sums = arena_.of(op, Role::exponential_sum);
  const auto tokens = static_cast<double>(state_.tokens);
  state_.loss_of(op.microbatch) = loss_of(arena_.of(op, Role::target_logit), sums) / tokens;
  const double scale = 1.0 / (static_cast<double>(layout_.micro_batches()) * tokens);
  loss_gradient(class_slice(exponentials.size()), exponentials, sums,
                state_.targets_of(op.microbatch), static_cast<float>(scale),
                arena_.of(op, Role::input_gradient));
}

}  // namespace real
