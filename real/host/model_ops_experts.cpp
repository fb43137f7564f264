// Routers, the way of tokens to experts and back, and what experts do besides their products.
#include "real/engine/operator_facts.hpp"
#include "real/host/kernels_elementwise.hpp"
#include "real/host/kernels_experts.hpp"
#include "real/host/model_ops.hpp"
#include "sim/base/check.hpp"

namespace real {

using sim::Role;

void ModelOps::choose_of(const BoundOp& op) {
  const std::span<const float> scores = arena_.of(op, Role::input);
  const std::span<float> weights = arena_.of(op, Role::choice_weights);
  choose(routing_of(model_, std::ssize(weights)), scores, probabilities_of(op, scores.size()),
         weights);
}

void ModelOps::choose_backward_of(const BoundOp& op) {
  const std::span<const float> gradients = arena_.of(op, Role::choice_gradient);
  const std::span<float> to = arena_.of(op, Role::input_gradient);
  choose_backward(routing_of(model_, std::ssize(gradients)), probabilities_of(op, to.size()),
                  gradients, to);
}

// At the start of what the router keeps.
std::span<float> ModelOps::probabilities_of(const BoundOp& op, std::size_t elements) {
  const Operand& saved = op.operand(Role::saved);
  return arena_.floats({saved.offset, static_cast<std::int64_t>(elements * sizeof(float))});
}

void ModelOps::move_tokens_of(const BoundOp& op) {
  const std::span<const float> from = arena_.of(op, Role::input);
  const std::span<float> to = arena_.of(op, Role::output);
  const std::int64_t width = op.model_op->in_features;
  if (is_to_experts(op)) {
    return copy_tokens(routing_of(model_, std::ssize(to) / width), from, to);
  }
  sum_copies(routing_of(model_, std::ssize(from) / width), from, to);
}

void ModelOps::sort_tokens_of(const BoundOp& op) {
  const std::span<const float> from = arena_.of(op, Role::input);
  const std::span<float> to = arena_.of(op, Role::output);
  const Arrived arrived = arrived_at(program_, std::ssize(to) / op.model_op->in_features);
  if (is_to_experts(op)) return sort_copies(arrived, from, to);
  restore_order(arrived, from, to);
}

WeighedActivation ModelOps::weighed_activation(const BoundOp& op, std::size_t rows) const {
  return {.function = op.model_op->function,
          .width = op.model_op->out_features / feature_share(program_, *op.model_op).ranks,
          .arrived = arrived_at(program_, static_cast<std::int64_t>(rows))};
}

void ModelOps::weighed_forward_of(const BoundOp& op) {
  const std::span<const float> weights = arena_.of(op, Role::choice_weights);
  weighed_forward(weighed_activation(op, weights.size()), arena_.of(op, Role::input), weights,
                  arena_.of(op, Role::output));
  keep_input(op);
}

void ModelOps::weighed_backward_of(const BoundOp& op) {
  const std::span<const float> weights = arena_.of(op, Role::choice_weights);
  weighed_backward(
      weighed_activation(op, weights.size()),
      {.x_or_y = op.operand(Role::saved_output).exists() ? arena_.of(op, Role::saved_output)
                                                         : kept_input(op),
       .weights = weights,
       .dy = arena_.of(op, Role::gradient),
       .dx = arena_.of(op, Role::input_gradient),
       .weight_gradients = arena_.of(op, Role::choice_gradient)});
}

}  // namespace real
