// The operators of a mixture of experts, as Megatron-LM runs it (core/transformer/moe, releases
// 0.12 to 0.15): router.py, token_dispatcher.py with an all-to-all, experts.py with grouped
// products.
#include "sim/model/transformer.hpp"

namespace sim {

namespace {

// Kernels that choose a token's experts, counted in topk_softmax_with_capacity, the auxiliary loss
// behind it and MoEAlltoAllTokenDispatcher.preprocess: softmax, top-k, maps made of zeros and
// scattered indices, their casts and sums, once for the choice and once for the loss. Each reads or
// writes about one fp32 value per token and expert. Backward: of two softmaxes, scatters and sums.
constexpr int choice_launches = 30;
constexpr int choice_backward_launches = 12;
constexpr double fp32_elements = 2;  // of 16 bits

ModelOp router_op(const TransformerShape& shape) {
  const std::int64_t experts = shape.experts.count;
  const auto scores = static_cast<double>(experts);
  return {.name = "router",
          .kind = ModelOpKind::router,
          .split = TensorSplit::sequence,
          .function = Function::route,
          .in_features = shape.hidden,
          .out_features = experts,
          .weights = shape.hidden * experts,
          .biases = shape.experts.router_bias ? experts : 0,
          .forward_elements = choice_launches * fp32_elements * scores,
          .backward_elements = choice_backward_launches * fp32_elements * scores,
          .forward_launches = choice_launches,
          .backward_launches = choice_backward_launches,
          .saved_elements = static_cast<double>(shape.hidden),
          // Two softmaxes in fp32, the 16-bit scores of the chosen and their map of bytes.
          .saved_fixed_bytes = 11 * scores};
}

std::int64_t width_of_experts(const TransformerShape& shape) {
  return shape.experts.latent > 0 ? shape.experts.latent : shape.hidden;
}

ModelOp exchange_op(const TransformerShape& shape, std::string name, ModelOpKind kind) {
  return {.name = std::move(name),
          .kind = kind,
          .split = TensorSplit::sequence,
          .function = Function::exchange,
          .per_token = shape.experts.per_token,
          .in_features = width_of_experts(shape),
          .out_features = width_of_experts(shape)};
}

// core/transformer/moe/shared_experts.py, use_shared_expert_gate: a score of the layer's input,
// whose sigmoid multiplies what the shared experts make. Forward: reads the input and that, writes
// the product. Backward: reads the gradient, that and the input, writes the gradients of both.
// Kept: what the shared experts make. The score's product is counted as the memory it reads.
ModelOp shared_gate_op(const TransformerShape& shape) {
  const auto hidden = static_cast<double>(shape.hidden);
  return {.name = "shared_expert_gate",
          .kind = ModelOpKind::elementwise,
          .split = TensorSplit::sequence,
          .in_features = shape.hidden,
          .out_features = shape.hidden,
          .biases = shape.hidden,
          .forward_elements = 3 * hidden,
          .backward_elements = 5 * hidden,
          .forward_launches = 3,
          .backward_launches = 5,
          .saved_elements = hidden};
}

ModelOp of_experts(ModelOp op, const Experts& experts) {
  op.experts = experts.count;
  op.per_token = experts.per_token;
  op.weights *= experts.count;
  op.biases *= experts.count;
  return op;
}

struct MlpNames {
  const char *up, *activation, *down;
};

void append_mlp_of(Block& block, const TransformerShape& shape, std::int64_t feed_forward,
                   const MlpNames& names, const Experts* experts) {
  const std::int64_t up = (is_gated(shape.activation) ? 2 : 1) * feed_forward;
  const std::int64_t width = experts != nullptr ? width_of_experts(shape) : shape.hidden;
  const auto append = [&](ModelOp op) {
    block.ops.push_back(experts != nullptr ? of_experts(std::move(op), *experts) : std::move(op));
  };
  append(linear_op(names.up, TensorSplit::column, width, up, shape.mlp_bias));
  append(activation_op(names.activation, shape.activation, TensorSplit::inner, feed_forward));
  append(linear_op(names.down, TensorSplit::row, feed_forward, width, shape.mlp_bias));
}

}  // namespace

// The choice weighs what an expert's activation makes (weighted_bias_swiglu), so that the way back
// only adds. Row numbers of permuted tokens: two per token and expert, and one (Transformer Engine,
// common/triton/permutation.py). With a latent width: NVIDIA-NeMo/Automodel at 36044ad3,
// components/ moe/layers.py, MoE.forward (fc1_latent_proj, fc2_latent_proj; the router reads the
// hidden state).
void append_experts(Block& block, const TransformerShape& shape) {
  const Experts& experts = shape.experts;
  const auto router = static_cast<int>(block.ops.size());
  block.ops.push_back(router_op(shape));
  if (experts.latent > 0)
    block.ops.push_back(linear_op("expert_latent_down", TensorSplit::sequence, shape.hidden,
                                  experts.latent, false));
  ModelOp dispatch = exchange_op(shape, "expert_dispatch", ModelOpKind::dispatch);
  dispatch.saved_fixed_bytes =
      4.0 * static_cast<double>(2 * experts.count + 1) / static_cast<double>(experts.per_token);
  block.ops.push_back(dispatch);
  append_mlp_of(block, shape, experts.feed_forward,
                {"expert_up", "expert_activation", "expert_down"}, &experts);
  block.ops.push_back(exchange_op(shape, "expert_combine", ModelOpKind::combine));
  if (experts.latent > 0)
    block.ops.push_back(
        linear_op("expert_latent_up", TensorSplit::sequence, experts.latent, shape.hidden, false));
  if (experts.shared_feed_forward == 0) return;
  const std::size_t shared = block.ops.size();
  append_mlp_of(block, shape, experts.shared_feed_forward,
                {"shared_expert_up", "shared_expert_activation", "shared_expert_down"}, nullptr);
  if (experts.shared_gate) block.ops.push_back(shared_gate_op(shape));
  block.ops[shared].starts_from = router;
  ModelOp sum = residual_op(shape, "shared_expert_sum", 0);
  sum.residual_of = static_cast<int>(shared);
  block.ops.push_back(sum);
}

}  // namespace sim
