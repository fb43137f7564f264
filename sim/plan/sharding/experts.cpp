// Routers, and the way of tokens to experts (Megatron-LM, core/transformer/moe/token_dispatcher.py,
// MoEAlltoAllTokenDispatcher): copied once for each choice, sent, gathered by the ranks that share
// an expert's features, sorted by expert; and back the same way.
//
// Experts are chosen evenly, as the loss that goes with them asks for; Layout::expert_imbalance
// makes every rank the fullest one, for which all others wait.
#include <cmath>

#include "sim/plan/sharding/parts.hpp"

namespace sim {
namespace {

// Of the tokens that a rank holds, one for each choice.
std::int64_t choices(const Region& region, const ModelOp& op) {
  return region.sequence_tokens * op.per_token;
}

std::int64_t tokens_that_come(const Region& region, const ModelOp& op) {
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(choices(region, op)) * region.layout->expert_imbalance));
}

std::int64_t experts_held(const Region& region) {
  return region.model->shape->experts.count / region.layout->expert_parallel;
}

}  // namespace

Region region_of_experts(const Region& region, const ModelOp& op) {
  Region made = region;
  made.tensor = region.layout->expert_tensor();
  made.experts = experts_held(region);
  made.tokens = made.sequence_tokens = tokens_that_come(region, op) * made.tensor;
  return made;
}

void shard_router(const Region& region, const ModelOp& op, ShardedOp& to) {
  const std::int64_t tokens = region.sequence_tokens;
  const DType dtype = region.layout->activation_dtype;
  const Bytes gradient{op.weights * bytes_of(region.layout->gradient_dtype)};
  to.input = to.whole_input = Bytes{tokens * op.in_features * region.element};
  to.output = to.whole_output = Bytes{tokens * op.out_features * region.element};
  to.forward = gemm(dtype, {tokens, op.out_features, op.in_features}, to.output);
  to.input_gradient = gemm(dtype, {tokens, op.in_features, op.out_features}, to.input);
  to.weight_gradient = gemm(dtype, {op.out_features, op.in_features, tokens}, gradient * 2);
  const auto pass = [&](double elements, int launches) {
    Kernel kernel = memory_kernel(OpKind::elementwise, region, op,
                                  elements * static_cast<double>(tokens) * region.element);
    kernel.launches = launches;
    return kernel;
  };
  to.choose = pass(op.forward_elements, op.forward_launches);
  to.choose_backward = pass(op.backward_elements, op.backward_launches);
  to.parameters = op.weights + op.biases;
  if (region.tensor > 1) to.tensor_summed = to.parameters;
}

// Copies read every token once and write it for each choice; sums the other way round. Where a rank
// has one expert, and nobody to share it with, what came is in order.
void shard_exchange(const Region& region, const ModelOp& op, ShardedOp& to) {
  const Layout& layout = *region.layout;
  ExpertExchange exchange;
  const std::int64_t token = op.in_features * region.element;
  exchange.sent = Bytes{choices(region, op) * token};
  exchange.came = Bytes{tokens_that_come(region, op) * token};
  exchange.gathered = exchange.came * layout.expert_tensor();
  exchange.weights = Bytes{choices(region, op) * bytes_of(DType::fp32)};
  exchange.weights_came = Bytes{tokens_that_come(region, op) * bytes_of(DType::fp32)};
  exchange.weights_gathered = exchange.weights_came * layout.expert_tensor();
  const Bytes own{region.sequence_tokens * token};
  const auto pass = [&](Bytes bytes) {
    return memory_kernel(OpKind::elementwise, region, op, static_cast<double>(bytes.count()));
  };
  exchange.permute = exchange.unpermute = pass(own + exchange.sent);
  const bool exchanged = layout.expert_parallel > 1 || layout.expert_tensor() > 1;
  if (exchanged && experts_held(region) > 1) exchange.sort = pass(exchange.gathered * 2);
  const bool dispatch = op.kind == ModelOpKind::dispatch;
  to.input = dispatch ? own : exchange.gathered;
  to.output = dispatch ? exchange.gathered : own;
  to.saved = bytes_from(op.saved_fixed_bytes * static_cast<double>(choices(region, op)));
  to.experts = exchange;
}

}  // namespace sim
