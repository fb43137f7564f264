// Mixtures of experts whose routers choose by their scores: how many rows a kernel works on is
// known when it runs (routing_table.hpp).
#include "real/engine/launch/kernel_launches.hpp"
#include "real/engine/operator_facts.hpp"
#include "sim/base/check.hpp"

namespace real {

using kernels::Launch;
using kernels::StreamHandle;
using sim::Action;
using sim::Role;

Launch KernelLaunches::routed_op(const BoundOp& op) {
  switch (op.action) {
    case Action::choose:
    case Action::choose_backward:
      return routed_choice(op);
    case Action::move_tokens:
    case Action::sort_tokens:
      return routed_rows(op);
    default:
      return routed_activation(op);
  }
}

// The numbers that are kept lie at the start of the plan's buffer for them.
Launch KernelLaunches::routed_choice(const BoundOp& op) {
  const RoutingTable& table = parts_.routing->of(op);
  const kernels::RoutedScores how{.score = parts_.routing->score(), .dtype = shapes_.activations()};
  float* kept = floats(at(op, Role::saved));
  if (op.action == Action::choose_backward)
    return as_launch(parts_.routed->choose_by_scores_backward, table.tokens(), how, kept,
                     floats(at(op, Role::choice_gradient)), at(op, Role::input_gradient));
  Launch choose = as_launch(parts_.routed->choose_by_scores, table.tokens(), how,
                            at(op, Role::input), kept, floats(at(op, Role::choice_weights)));
  if (table.is_told()) return choose;
  return kernels::in_turn(std::move(choose),
                          as_launch(parts_.routed->order_arrived, table.tokens()));
}

Launch KernelLaunches::routed_rows(const BoundOp& op) {
  const kernels::RoutedTable& routed = *parts_.routed;
  const bool to = is_to_experts(op);
  const auto move = op.action == Action::sort_tokens
                        ? (to ? routed.sort_routed : routed.restore_routed)
                        : (to ? routed.copy_routed : routed.sum_routed);
  const kernels::RoutedRows rows{.dtype = shapes_.activations(), .width = op.model_op->in_features};
  return as_launch(move, parts_.routing->of(op).tokens(), rows, at(op, Role::input),
                   at(op, Role::output));
}

Launch KernelLaunches::routed_activation(const BoundOp& op) {
  const kernels::RoutedActivation shape{
      .function = op.model_op->function,
      .dtype = shapes_.activations(),
      .width = op.model_op->out_features / feature_share(parts_.program, *op.model_op).ranks};
  const kernels::RoutedTokens& tokens = parts_.routing->of(op).tokens();
  const float* weights = floats(at(op, Role::choice_weights));
  if (op.action == Action::forward)
    return keep_input(op, as_launch(parts_.routed->weighed_routed, tokens, shape,
                                    at(op, Role::input), weights, at(op, Role::output)));
  SIM_CHECK(op.action == Action::backward, op.model_op->name, static_cast<int>(op.action));
  const kernels::WeighedBackward operands{
      .saved = at(op, kept_of(op)),
      .weights = weights,
      .gradient = at(op, Role::gradient),
      .input_gradient = at(op, Role::input_gradient),
      .weight_gradients = floats(at(op, Role::choice_gradient))};
  return as_launch(parts_.routed->weighed_routed_backward, tokens, shape, operands);
}

// A product for each expert, of as many rows as have come to it.
Launch KernelLaunches::routed_product(const BoundOp& op, const GemmShape& shape,
                                      const GemmOperands& operands) {
  const bool of_weights = shape.pass == GemmPass::weight_gradient;
  const bool forward = shape.pass == GemmPass::forward;
  const std::int64_t size = sim::bytes_of(shape.dtype), result = sim::bytes_of(shape.output);
  // Bytes from an expert's operand to the next, or of a row.
  const std::int64_t matrix = shape.in * shape.out * (of_weights ? result : size);
  const std::int64_t first_row = (forward ? shape.in : shape.out) * size;
  const std::int64_t second_row = of_weights ? shape.in * size : 0;
  const std::int64_t result_row = of_weights ? 0 : (forward ? shape.out : shape.in) * result;
  return [=, products = &parts_.products, zero = kernels_.zero,
          &table = parts_.routing->of(op)](StreamHandle stream) {
    GemmShape own = shape;
    std::int64_t row = 0;
    for (std::int64_t expert = 0; expert < table.shape().held(); ++expert) {
      const std::int64_t rows = own.tokens = table.rows_of(expert);
      GemmOperands at = operands;
      at.first = static_cast<const std::byte*>(operands.first) + row * first_row;
      at.second = static_cast<const std::byte*>(operands.second) +
                  (of_weights ? row * second_row : expert * matrix);
      at.result = static_cast<std::byte*>(operands.result) +
                  (of_weights ? expert * matrix : row * result_row);
      if (rows > 0)
        products->prepare(own, at, stream)(stream);
      else if (of_weights && !shape.accumulate)
        zero(at.result, matrix, stream);
      row += rows;
    }
  };
}

}  // namespace real
