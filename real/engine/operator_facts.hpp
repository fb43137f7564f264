// Facts of an operator that both backends need beside its operands.
#pragma once

#include <algorithm>
#include <array>

#include "real/engine/bound_program.hpp"
#include "real/engine/kernels.hpp"
#include "real/engine/kernels/routing.hpp"
#include "real/net/collectives.hpp"
#include "sim/model/dropout.hpp"
#include "sim/program/action_table.hpp"

namespace real {

// How the ranks of its group put their parts together.
constexpr Reduction reduction_of(sim::Combination combination) {
  switch (combination) {
    case sim::Combination::maximum:
      return Reduction::maximum;
    case sim::Combination::average:
      return Reduction::average;
    case sim::Combination::sum:
      break;
  }
  return Reduction::sum;
}
// Gradients that were scaled before their collectives are added.
inline Reduction reduction_of(const BoundProgram& program, const BoundOp& op) {
  const Reduction usual = reduction_of(sim::action_row(op.action).combination);
  const bool scaled = program.model->execution.scales_gradients &&
                      program.plan->layout.zero_stage < 2 && usual == Reduction::average;
  return scaled ? Reduction::sum : usual;
}

// Roles that operators write.
inline constexpr std::array written_roles{
    sim::Role::output,          sim::Role::saved,          sim::Role::input_gradient,
    sim::Role::weight_gradient, sim::Role::maximum,        sim::Role::target_logit,
    sim::Role::exponential_sum, sim::Role::choice_weights, sim::Role::choice_gradient};

// The ranks that share an operator's features or heads, and which of them this is.
struct FeatureShare {
  std::int64_t ranks = 1, rank = 0;
};
inline FeatureShare feature_share(const BoundProgram& program, const sim::ModelOp& op) {
  const sim::Layout& layout = program.plan->layout;
  if (op.experts == 0) return {layout.tensor_parallel, program.at.tensor};
  const auto role = static_cast<std::size_t>(sim::GroupRole::expert_tensor);
  return {layout.expert_tensor(), program.groups[role].position};
}

// The function of an operator. The model leaves that of latent attention open, since kernels of one
// width do not compute it; the engine's take two.
inline sim::Function function_of(const sim::Model& model, const sim::ModelOp& op) {
  const bool latent = op.kind == sim::ModelOpKind::attention && model.has_latent_attention();
  return latent && !model.shape->sparse.exists() && !model.attention.softcap && op.biases == 0
             ? sim::Function::attention
             : op.function;
}

// The tokens of every sequence that this rank has.
inline kernels::ContextShare context_share(const BoundProgram& program) {
  return {program.plan->layout.context_parallel, program.at.context};
}

// The routed experts of a layer that this rank has.
struct ExpertShare {
  std::int64_t count = 0, first = 0;
};
inline ExpertShare expert_share(const BoundProgram& program, const sim::ModelOp& op) {
  const auto role = static_cast<std::size_t>(sim::GroupRole::expert);
  const std::int64_t count = op.experts / program.plan->layout.expert_parallel;
  return {count, program.groups[role].position * count};
}

// `elements`: of one copy for each choice, or of one number for each.
inline Routing routing_of(const sim::Model& model, std::int64_t copies) {
  const sim::Experts& experts = model.shape->experts;
  return {copies / experts.per_token, experts.per_token, experts.count};
}

inline Arrived arrived_at(const BoundProgram& program, std::int64_t rows) {
  const sim::Layout& layout = program.plan->layout;
  const std::int64_t experts = program.model->shape->experts.count / layout.expert_parallel;
  const std::int64_t parts = std::int64_t{layout.expert_parallel} * layout.expert_tensor();
  return {experts, experts > 1 ? parts : 1, rows};
}

// Whether tokens are on their way to the experts, or back from there.
constexpr bool is_to_experts(const BoundOp& op) {
  return (op.model_op->kind == sim::ModelOpKind::dispatch) == (op.pass != sim::Pass::backward);
}

// An expert's gradient sums over the tokens of all ranks that send it some, and is then averaged
// over the ranks that have it: fewer than there are replicas of the rest, over which the loss is
// averaged (Megatron-LM, core/distributed/distributed_data_parallel.py,
// expert_gradient_scaling_factor).
inline float gradient_scale(const BoundProgram& program, const sim::ModelOp& op) {
  const sim::Layout& layout = program.plan->layout;
  if (op.experts == 0) return 1;
  return static_cast<float>(layout.expert_replicas()) / static_cast<float>(layout.replicas());
}

// rotary_dim() is how many elements of a head rotary positions turn, as a whole number.
inline std::int64_t rotary_dim(const sim::Model& model) {
  return static_cast<std::int64_t>(static_cast<double>(model.attention.head_dim) *
                                   model.attention.rotary_share);
}

// Whether the model gives each sequence one class, that of a label, instead of each token the next
// one. Its sequences are of unequal length, padded with id 0.
inline bool reads_labels(const sim::Model& model) {
  return std::any_of(model.output.ops.begin(), model.output.ops.end(), [](const sim::ModelOp& op) {
    return op.function == sim::Function::cross_entropy && op.once_per_sequence;
  });
}
inline constexpr std::int32_t padding_id = 0;

// The elements that mean something in an operand of `elements` that `op` writes in a role. Nothing
// writes the padding of a bucket: there it may hold anything. The plan counts the tensors that a
// router and a dispatch keep in Megatron-LM; the engine needs the softmax only.
inline std::int64_t written_elements(const BoundProgram& program, const BoundOp& op, sim::Role role,
                                     std::int64_t elements) {
  if (role == sim::Role::saved && op.action == sim::Action::move_tokens) return 0;
  // Codes: what they are made of was looked at.
  const bool multiplies = role == sim::Role::saved && op.kernel != nullptr;
  if (multiplies && sim::is_quantized(op.kernel->dtype)) return 0;
  const sim::Written written = sim::action_row(op.action).written;
  if (written == sim::Written::message) return 0;
  // For dropout the plan counts a mask, which the engine finds again instead of keeping it.
  if (role == sim::Role::saved && op.model_op != nullptr &&
      sim::dropout_of(*program.model, *op.model_op) > 0) {
    const sim::Kernel& kernel = *op.kernel;
    const bool unfused = op.kind == sim::OpKind::attention && !sim::is_flash(kernel.attention);
    if (op.kind != sim::OpKind::attention) return 0;
    if (unfused) return kernel.batch * kernel.heads * kernel.m * kernel.n;
  }
  if (role == sim::Role::saved && op.action == sim::Action::forward) {
    // Eager kernels keep more than their input, which is all that the engine reads again.
    const sim::Function function = op.model_op->function;
    const Operand& input = op.operand(sim::Role::input);
    if (function == sim::Function::rotary) return 0;
    if (input.exists() && (is_norm(function) || is_activation(function)))
      elements =
          std::min(elements, input.bytes / sim::bytes_of(program.plan->layout.activation_dtype));
  }
  if (role == sim::Role::saved && op.action == sim::Action::choose)
    return op.operand(sim::Role::choice_weights).bytes / sim::bytes_of(sim::DType::fp32) /
           program.model->shape->experts.per_token * program.model->shape->experts.count;
  if (written != sim::Written::of_bucket) return elements;
  const BoundBucket& bucket = program.buckets.at(op.subject);
  const bool shard = elements < bucket.padded;
  return std::clamp<std::int64_t>(bucket.elements - (shard ? bucket.owned_first : 0), 0, elements);
}

}  // namespace real
