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
  RoutingTables& tables = *parts_.routing;
  RoutingTable& table = tables.of(op);
  const RouterScore score = tables.score();
  float* kept = floats(at(op, Role::saved));
  if (op.action == Action::choose_backward) {
    const float* weight_gradients = floats(at(op, Role::choice_gradient));
    float* scores = floats(at(op, Role::input_gradient));
    return [=, &table, choose = parts_.routed->choose_backward](StreamHandle) {
      choose(table, score, kept, weight_gradients, scores);
    };
  }
  const float* scores = floats(at(op, Role::input));
  float* weights = floats(at(op, Role::choice_weights));
  return [=, &tables, &table, &op, choose = parts_.routed->choose](StreamHandle) {
    choose(table, score, scores, kept, weights);
    tables.count(op);
  };
}

Launch KernelLaunches::routed_rows(const BoundOp& op) {
  const kernels::RoutedTable& routed = *parts_.routed;
  const bool to = is_to_experts(op);
  kernels::RoutedTable::Move* move = op.action == Action::sort_tokens
                                         ? (to ? routed.sort_copies : routed.restore_order)
                                         : (to ? routed.copy_tokens : routed.sum_copies);
  const std::int64_t width = op.model_op->in_features;
  const float* from = floats(at(op, Role::input));
  float* into = floats(at(op, Role::output));
  return [=, &table = parts_.routing->of(op)](StreamHandle) { move(table, width, from, into); };
}

Launch KernelLaunches::routed_activation(const BoundOp& op) {
  const kernels::RoutedActivation shape{
      .function = op.model_op->function,
      .width = op.model_op->out_features / feature_share(parts_.program, *op.model_op).ranks};
  const RoutingTable& table = parts_.routing->of(op);
  const float* weights = floats(at(op, Role::choice_weights));
  if (op.action == Action::forward) {
    const float* input = floats(at(op, Role::input));
    float* output = floats(at(op, Role::output));
    return keep_input(op, [=, &table, run = parts_.routed->weighed_forward](StreamHandle) {
      run(table, shape, input, weights, output);
    });
  }
  SIM_CHECK(op.action == Action::backward, op.model_op->name, static_cast<int>(op.action));
  const kernels::WeighedBackward operands{
      .saved = at(op, kept_of(op)),
      .weights = weights,
      .gradient = at(op, Role::gradient),
      .input_gradient = at(op, Role::input_gradient),
      .weight_gradients = floats(at(op, Role::choice_gradient))};
  return [=, &table, run = parts_.routed->weighed_backward](StreamHandle) {
    run(table, shape, operands);
  };
}

// A product for each expert, of as many rows as have come to it.
Launch KernelLaunches::routed_product(const BoundOp& op, const GemmShape& shape,
                                      const GemmOperands& operands) {
  const bool of_weights = shape.pass == GemmPass::weight_gradient;
  const bool forward = shape.pass == GemmPass::forward;
  constexpr auto size = static_cast<std::int64_t>(sizeof(float));
  // Bytes from an expert's operand to the next, or of a row.
  const std::int64_t matrix = shape.in * shape.out * size;
  const std::int64_t first_row = (forward ? shape.in : shape.out) * size;
  const std::int64_t second_row = of_weights ? shape.in * size : 0;
  const std::int64_t result_row = of_weights ? 0 : (forward ? shape.out : shape.in) * size;
  return [=, this_products = &parts_.products, zero = kernels_.zero,
          &table = parts_.routing->of(op)](StreamHandle stream) {
    std::int64_t row = 0, expert = 0;
    for (const std::int64_t rows : table.rows_of_experts()) {
      GemmShape own = shape;
      own.tokens = rows;
      GemmOperands at = operands;
      at.first = static_cast<const std::byte*>(operands.first) + row * first_row;
      at.second = static_cast<const std::byte*>(operands.second) +
                  (of_weights ? row * second_row : expert * matrix);
      at.result = static_cast<std::byte*>(operands.result) +
                  (of_weights ? expert * matrix : row * result_row);
      if (rows > 0)
        this_products->prepare(own, at, stream)(stream);
      else if (of_weights && !own.accumulate)
        zero(at.result, matrix, stream);
      row += rows;
      ++expert;
    }
  };
}

}  // namespace real
