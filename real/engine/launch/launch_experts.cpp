// Mixtures of experts: the choice, the way of copies, and the activation that weights multiply.
#include "real/engine/launch/kernel_launches.hpp"
#include "real/engine/operator_facts.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using sim::Role;

// The softmax lies at the start of what the router keeps.
Launch KernelLaunches::choose(const BoundOp& op, bool backward) {
  const kernels::ChoiceShape shape = shapes_.choice(op);
  float* probabilities = floats(at(op, Role::saved));
  if (backward)
    return as_launch(kernels_.choose_backward, shape, probabilities,
                     floats(at(op, Role::choice_gradient)), at(op, Role::input_gradient));
  return as_launch(kernels_.choose, shape, at(op, Role::input), probabilities,
                   floats(at(op, Role::choice_weights)));
}

Launch KernelLaunches::move_tokens(const BoundOp& op) {
  return as_launch(is_to_experts(op) ? kernels_.copy_tokens : kernels_.sum_copies,
                   shapes_.copies(op), at(op, Role::input), at(op, Role::output));
}

Launch KernelLaunches::sort_tokens(const BoundOp& op) {
  return as_launch(is_to_experts(op) ? kernels_.sort_copies : kernels_.restore_order,
                   shapes_.sorted(op), at(op, Role::input), at(op, Role::output));
}

Launch KernelLaunches::weighed_forward(const BoundOp& op) {
  return keep_input(op,
                    as_launch(kernels_.weighed_forward, shapes_.weighed(op), at(op, Role::input),
                              floats(at(op, Role::choice_weights)), at(op, Role::output)));
}

Launch KernelLaunches::weighed_backward(const BoundOp& op) {
  const kernels::WeighedBackward operands{
      .saved = at(op, kept_of(op)),
      .weights = floats(at(op, Role::choice_weights)),
      .gradient = at(op, Role::gradient),
      .input_gradient = at(op, Role::input_gradient),
      .weight_gradients = floats(at(op, Role::choice_gradient))};
  return as_launch(kernels_.weighed_backward, shapes_.weighed(op), operands);
}

}  // namespace real
