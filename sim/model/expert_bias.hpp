// The bias behind the second product of Megatron-LM's experts, and the clamp before their
// activation, where kernels of their own make them (sim/framework/expert_kernels.cpp).
#pragma once

#include <algorithm>
#include <cmath>

#include "sim/model/model.hpp"

namespace sim {

// Megatron-LM core_r0.17.0, core/transformer/moe/experts.py, TEGroupedMLP._apply_bias. Forward, of
// each expert: the bias times the weights of choices, added; then all put together, and cast.
// Backward, of each: the cast of the gradient, two products and their sums, the cast of the bias'
// gradient, which is added to that of the step; before and behind, a cast and a concatenation.
struct ExpertBiasOperators {
  int each, all;
};
constexpr ExpertBiasOperators expert_bias_forward{2, 2}, expert_bias_backward{7, 2};

// Launches that so many plain operators of PyTorch count as. The host issues one of them in
// Device::host_issue, which is one after another from Python (topologies/devices/RULES.md, rule 9);
// a kernel of a Megatron layer has a module and an autograd function around it, and takes 5.7 times
// as long (sim/framework/pages/host.md, host_calls).
inline int launches_of_plain(int operators) {
  constexpr double plain_per_launch = 5.7;
  return std::max(1, static_cast<int>(std::lround(operators / plain_per_launch)));
}

// An operator of experts that adds the bias of the product before it.
inline bool is_expert_bias(const ModelOp& op) {
  return op.experts > 0 && op.kind == ModelOpKind::elementwise && op.function == Function::none;
}

// clamps_experts tells whether the gated activation of experts is clamped and has an offset: of the
// family gpt_oss alone (GptOssExperts of transformers 4.55).
inline bool clamps_experts(const Model& model) {
  return model.family == "gpt_oss";
}
inline bool clamps_experts(const TransformerShape& shape) {
  return shape.family == "gpt_oss" && shape.experts.count > 0;
}

// Whether the offset of the activation is copied from the host's memory whenever it is computed,
// for which the host waits (fused_bias_geglu.py, torch.tensor(linear_offset, device)).
inline bool copies_offset(const Model& model, const ModelOp& op) {
  const Execution& runs = model.execution;
  return clamps_experts(model) && op.experts > 0 && op.kind == ModelOpKind::elementwise &&
         op.function != Function::none && runs.experts == ExpertForm::megatron &&
         !runs.operation_fuser;
}

}  // namespace sim
