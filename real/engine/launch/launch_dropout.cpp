// Residual sums with and without dropout, and which scores an attention leaves out.
#include "real/engine/launch/kernel_launches.hpp"
#include "real/engine/operator_facts.hpp"
#include "sim/base/check.hpp"
#include "sim/model/dropout.hpp"

namespace real {

using kernels::as_launch;
using kernels::Launch;
using sim::Role;

Launch KernelLaunches::residual_forward(const BoundOp& op) {
  if (sim::dropout_of(*parts_.program.model, *op.model_op) > 0)
    return drop(op, Role::input, Role::residual, Role::output);
  return add(op, Role::input, Role::residual, Role::output);
}

// The gradient that went past the branch is added to the branch's gradient. A sum alone hands its
// gradient on as it is; with dropout the branch's is dropped.
Launch KernelLaunches::residual_backward(const BoundOp& op) {
  if (op.operand(Role::residual_gradient).exists())
    return add(op, Role::gradient, Role::residual_gradient, Role::input_gradient);
  return drop(op, Role::gradient, Role::residual_gradient, Role::input_gradient);
}

Launch KernelLaunches::drop(const BoundOp& op, Role input, Role residual, Role output) {
  SIM_CHECK(parts_.dropout != nullptr, op.model_op->name);
  const kernels::DropoutShape shape{.dtype = shapes_.activations(),
                                    .tokens = shapes_.positions(op, op.operand(output).bytes),
                                    .first_sequence = shapes_.first_sequence(op),
                                    .width = op.model_op->out_features,
                                    .dropout = dropout_of(op)};
  return as_launch(parts_.dropout->drop, shape, at(op, input), at(op, residual), at(op, output));
}

kernels::Dropout KernelLaunches::dropout_of(const BoundOp& op) const {
  const sim::Site& site = parts_.program.program->sites.at(op.subject);
  // A block has fewer operators than that; the input block stands before the first layer.
  constexpr std::uint32_t operators_of_block = 256;
  const bool in_layer = site.place == sim::BlockPlace::layer;
  const auto block = static_cast<std::uint32_t>(in_layer ? site.layer + 1 : 0);
  return {.probability = sim::dropout_of(*parts_.program.model, *op.model_op),
          .seed = parts_.training.seed,
          .site = block * operators_of_block + static_cast<std::uint32_t>(site.op),
          .step = parts_.memory.adam};
}

kernels::ScoreRules KernelLaunches::score_rules(const BoundOp& op) const {
  const sim::Model& model = *parts_.program.model;
  const FeatureShare share = feature_share(parts_.program, *op.model_op);
  kernels::ScoreRules rules{.padding = padding_id,
                            .dropout = dropout_of(op),
                            .first_sequence = shapes_.first_sequence(op),
                            .first_head = shapes_.first_head(op, share),
                            .all_heads = model.attention.heads};
  if (reads_labels(model)) rules.tokens = shapes_.ids(op, parts_.memory.ids, 0);
  return rules;
}

}  // namespace real
