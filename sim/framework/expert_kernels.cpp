#include "sim/framework/expert_kernels.hpp"

#include "sim/model/expert_bias.hpp"

namespace sim {
namespace {

// t + b * p of each expert, with weights p of choices in fp32 (core_r0.17.0, core/transformer/moe/
// experts.py, TEGroupedMLP._apply_bias), in 16-bit elements read + written per feature.
// Forward: the product 2, the sum 1 + 2 + 2, the concatenation 2 + 2, the cast 2 + 1. Backward: the
// cast 1 + 2, that of t's gradient 2 + 1, b's and p's products 2 (2 + 2) and sums 2 + 2, the
// concatenation of t's gradients 1 + 1.
constexpr double bias_forward = 14, bias_backward = 20;

// Clamps of both halves, which are views, and their concatenation; the activation behind is one
// compiled kernel (core/fusions/fused_bias_geglu.py, weighted_bias_quick_geglu_impl). Elements as
// above, per feature of a half, bytes of masks halves of them.
// Forward: 1 + 1, 1 + 1, 2 + 2. Backward: of the gate, the comparison 1 + 0.5 and the choice 0.5 +
// 1 + 1; of the other half two comparisons 2 (1 + 0.5), both 1 + 0.5, the choice; the halves put
// together 2 + 2. Strided: all that reads a half.
constexpr double clamp_forward = 8, clamp_backward = 15;
constexpr double clamp_forward_strided = 4, clamp_backward_strided = 9.5;
constexpr int clamp_forward_operators = 3, clamp_backward_operators = 7;

bool is_activation_of_experts(const ModelOp& op) {
  return op.experts > 0 && op.kind == ModelOpKind::elementwise && !is_expert_bias(op);
}

// What it gives back to the clamps is kept beside what they read.
void clamp(ModelOp& op) {
  const auto half = static_cast<double>(op.out_features);
  op.forward_elements += clamp_forward * half;
  op.backward_elements += clamp_backward * half;
  op.forward_strided += clamp_forward_strided * half;
  op.backward_strided += clamp_backward_strided * half;
  op.forward_launches += launches_of_plain(clamp_forward_operators);
  op.backward_launches += launches_of_plain(clamp_backward_operators);
  op.saved_elements += 2 * half;
}

ModelOp bias_behind(const ModelOp& linear) {
  const auto features = static_cast<double>(linear.out_features);
  ModelOp op{.name = linear.name + "_bias",
             .kind = ModelOpKind::elementwise,
             .split = TensorSplit::sequence,
             .experts = linear.experts,
             .per_token = linear.per_token,
             .in_features = linear.out_features,
             .out_features = linear.out_features,
             .forward_elements = bias_forward * features,
             .backward_elements = bias_backward * features};
  return op;
}

void insert_at(Block& block, std::size_t at, ModelOp op) {
  block.ops.insert(block.ops.begin() + static_cast<std::ptrdiff_t>(at), std::move(op));
  for (ModelOp& other : block.ops)
    for (int* const refers : {&other.residual_of, &other.starts_from, &other.shares_with})
      if (*refers >= static_cast<int>(at)) ++*refers;
}

void add_biases(Block& block) {
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    ModelOp& op = block.ops[i];
    const bool down = op.experts > 0 && op.kind == ModelOpKind::linear &&
                      op.split == TensorSplit::row && op.biases > 0;
    if (!down) continue;
    op.backward_elements = 0;  // the gradient of the bias comes of its own operator
    insert_at(block, i + 1, bias_behind(block.ops[i]));
  }
}

}  // namespace

void add_expert_kernels(const Framework& framework, Model& model) {
  if (framework.execution.experts != ExpertForm::megatron) return;
  if (framework.execution.operation_fuser) return;  // grouped products that do all of it
  if (framework.name != FrameworkName::megatron) return;
  for (Block& layer : model.layers) {
    if (clamps_experts(model))
      for (ModelOp& op : layer.ops)
        if (is_activation_of_experts(op)) clamp(op);
    add_biases(layer);
  }
}

}  // namespace sim
