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

// Adds the clamps before the activation. Their output, which it reads, is kept beside their input.
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

bool has_bias_of_experts(const ModelOp& op) {
  return op.experts > 0 && op.kind == ModelOpKind::linear && op.biases > 0;
}

void add_biases(Block& block) {
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    ModelOp& op = block.ops[i];
    if (!has_bias_of_experts(op) || op.split != TensorSplit::row) continue;
    op.backward_elements = 0;  // the gradient of the bias comes of its own operator
    insert_at(block, i + 1, bias_behind(block.ops[i]));
  }
}

// NVIDIA-NeMo/Automodel at 36044ad3, components/moe/experts.py, _apply_bias: the bias, repeated for
// every row, is added behind either product. Elements as above.
// Behind the first, forward: repeated 1, the sum 2 + 1; backward: the sum of an expert's rows 1.
// Behind the second, with the weights of choices in fp32, forward: repeated 2, the product 2 + 2,
// the sum 1 + 2 + 2, the cast 2 + 1; backward: the casts of the gradient 1 + 2 and of that of t 2 +
// 1, the product for the bias 2 + 2 and its sum 2, that for the weights 2 + 2 + 2 and its sum 2.
// The repeated bias is kept for the gradient of the weights.
struct RepeatedBias {
  double forward, backward, saved;
  int forward_launches, backward_launches;
};
constexpr RepeatedBias behind_first{4, 1, 0, 2, 1}, behind_second{14, 20, 2, 4, 6};

void add_repeated_biases(Block& block) {
  for (std::size_t i = 0; i < block.ops.size(); ++i) {
    if (!has_bias_of_experts(block.ops[i])) continue;
    block.ops[i].backward_elements = 0;
    ModelOp op = bias_behind(block.ops[i]);
    const auto features = static_cast<double>(op.out_features);
    const RepeatedBias& bias =
        block.ops[i].split == TensorSplit::row ? behind_second : behind_first;
    op.forward_elements = bias.forward * features;
    op.backward_elements = bias.backward * features;
    op.saved_elements = bias.saved * features;
    op.forward_launches = bias.forward_launches;
    op.backward_launches = bias.backward_launches;
    insert_at(block, i + 1, std::move(op));
  }
}

}  // namespace

void add_expert_kernels(const Framework& framework, Model& model) {
  if (is_of_automodel(framework.execution.experts)) {
    for (Block& layer : model.layers)
      add_repeated_biases(layer);
    return;
  }
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
