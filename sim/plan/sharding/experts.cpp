// Routers, and the way of tokens to experts (Megatron-LM,
// core/transformer/moe/token_dispatcher.py). MoEAlltoAllTokenDispatcher: copied once for each
// choice, sent, gathered by the ranks that share an expert's features, sorted by expert; and back
// the same way. The other dispatchers: sent as they are, copied for each choice where they come.
//
// Experts are chosen evenly, as the loss that goes with them asks for, or by a distribution
// (expert_shares.hpp). Every rank is the fullest one, for which all others wait.
#include <algorithm>
#include <cmath>

#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/parts.hpp"
#include "sim/program/expert_routing.hpp"

namespace sim {
namespace {

// Choices of the tokens that a rank holds.
std::int64_t choices_held(const Region& region, const ModelOp& op) {
  return region.sequence_tokens * op.per_token;
}

std::int64_t tokens_of(double count) {
  return static_cast<std::int64_t>(std::ceil(count));
}

std::int64_t tokens_that_come(const Region& region, const ModelOp& op) {
  return tokens_of(static_cast<double>(choices_held(region, op)) * region.share->come);
}

std::int64_t tokens_sent(const Region& region, const ModelOp& op) {
  return tokens_of(static_cast<double>(choices_held(region, op)) * region.shares->sent);
}

std::int64_t experts_held(const Region& region) {
  return region.model->shape->experts.count / region.layout->expert_parallel;
}

// The tokens of an expert are any number: to the next multiple half of one is missing in the mean.
// Scales of 8-bit products stand for 16 rows, or 32 (pytorch/torchtitan 73a0e697,
// components/quantization/__init__.py, FP8_GROUP_ALIGNMENT_SIZE, MXFP8_GROUP_ALIGNMENT_SIZE).
std::int64_t padded_rows(const Region& region) {
  const Execution& runs = region.model->execution;
  std::int64_t multiple = runs.expert_rows;
  if (runs.experts == ExpertForm::torchtitan && is_quantized(region.layout->compute_dtype))
    multiple = std::max<std::int64_t>(multiple, scales_blocks(runs.eight_bit) ? 32 : 16);
  return experts_held(region) * (multiple - 1) / 2;
}

// torchtitan: each way is kernels of its own, whose tokens are counted per choice
// (sim/framework/framework.cpp), and a copy into the order of a rank's experts and back: rows with
// one of padding put behind, then picked; the other way rows put (v0.2.2, models/moe/utils.py,
// _permute and _unpermute). HEAD has neither padding nor, without expert parallelism, the copy.
void shard_titan_way(const Region& region, const ModelOp& op, ExpertExchange& exchange) {
  const Layout& layout = *region.layout;
  const bool dispatch = op.kind == ModelOpKind::dispatch;
  const int shares = layout.expert_tensor();
  const Bytes own{region.sequence_tokens * op.in_features * region.element};
  // Expert-tensor ranks work on the tokens of all of them.
  exchange.sent = exchange.sent * shares;
  exchange.came = exchange.came * shares;
  exchange.gathered = exchange.came + Bytes{padded_rows(region) * op.in_features * region.element};
  exchange.whole = own * shares;
  const auto pass = [&](double each, Bytes tokens, int launches) {
    const double bytes =
        each * static_cast<double>(exchange.sent.count()) + static_cast<double>(tokens.count());
    Kernel kernel = memory_kernel(OpKind::elementwise, region, op, bytes);
    kernel.launches = launches;
    return kernel;
  };
  const Kernel there =
      pass(op.forward_elements, dispatch ? Bytes{} : exchange.whole, op.forward_launches);
  const Kernel back =
      pass(op.backward_elements, dispatch ? exchange.whole : Bytes{}, op.backward_launches);
  exchange.permute = dispatch ? there : back;
  exchange.unpermute = dispatch ? back : there;
  exchange.counts = Bytes{region.model->shape->experts.count * 8};
  if (layout.expert_parallel == 1 && padded_rows(region) == 0) return;
  const bool pads = region.model->execution.expert_rows > 1;
  exchange.sort = memory_kernel(
      OpKind::elementwise, region, op,
      (dispatch && pads ? 4.0 : 2.0) * static_cast<double>(exchange.gathered.count()));
  exchange.sort->launches = dispatch ? 14 : 2;
}

// A dropped choice is sent nowhere; the others go where they would.
ExpertRouting routing_of(const Region& region) {
  const Experts& experts = region.model->shape->experts;
  return {.experts = experts.count,
          .per_token = experts.per_token,
          .groups = experts.groups,
          .groups_per_token = experts.groups_per_token,
          .consecutive = region.layout->expert_choice == ExpertChoice::consecutive,
          .imbalance = region.share->come,
          .of_blocks = region.share->blocks};
}

// All-gather: every rank has the tokens of all, with their choices as a row of all experts in fp32
// and a map of bytes (token_dispatcher.py, MoEAllGatherTokenDispatcher, token_permutation).
void shard_gathered(const Region& region, ExpertExchange& exchange, Bytes own) {
  const int ranks = region.layout->expert_parallel;
  const Experts& experts = region.model->shape->experts;
  // Automodel: the choices' numbers in 64 bits, their weights, a byte for the token
  // (components/moe/experts.py, GroupedExperts.forward).
  const std::int64_t each = is_of_automodel(region.model->execution.experts)
                                ? experts.per_token * (bytes_of(DType::fp32) + 8) + 1
                                : experts.count * (bytes_of(DType::fp32) + 1);
  const Bytes choice{region.sequence_tokens * each};
  exchange.whole = own * ranks;
  exchange.weights = choice;
  exchange.weights_gathered = choice * ranks;
}

// Fused: a token comes once to each rank that it has chosen, with all its choices.
void shard_fused(const Region& region, ExpertExchange& exchange, Bytes own) {
  const Layout& layout = *region.layout;
  exchange.routing = routing_of(region);
  const double all = layout.expert_parallel;
  const double ranks =
      std::min(all, all * share_that_chooses(exchange.routing, experts_held(region)) *
                        imbalance_of(exchange.routing, 1));
  const auto come = [&](Bytes bytes) {
    return Bytes{tokens_of(static_cast<double>(bytes.count()) * ranks)};
  };
  exchange.whole = come(own);
  exchange.weights_gathered = come(exchange.weights);
  // A byte for each token and expert (DeepEP, csrc/hybrid_ep/executor, allgather_routing_map).
  if (layout.token_dispatcher == TokenDispatcher::hybridep)
    exchange.map_gathered =
        Bytes{region.sequence_tokens * exchange.routing.experts * layout.expert_parallel};
}

}  // namespace

bool weighs_at_origin(const Execution& runs, const Layout& layout) {
  return runs.experts == ExpertForm::torchtitan &&
         layout.token_dispatcher == TokenDispatcher::alltoall;
}

Region region_of_experts(const Region& region, const ModelOp& op) {
  Region made = region;
  made.tensor = region.layout->expert_tensor();
  made.experts = experts_held(region);
  const std::int64_t come = tokens_that_come(region, op) * made.tensor;
  made.tokens = made.sequence_tokens = come + padded_rows(region);
  return made;
}

void spread_rows(const Region& region, Kernel& product) {
  const std::vector<double>& sizes = region.share->sizes;
  if (sizes.empty() || region.share->come <= 0) return;
  const double even = static_cast<double>(product.m) / region.share->come;
  std::size_t first = 0;
  for (std::size_t part = 0; part < product.uneven.size(); ++part) {
    const auto count = static_cast<std::size_t>(uneven_part(product.batch, part));
    double sum = 0;
    for (std::size_t i = first; i < first + count; ++i)
      sum += sizes[i];
    first += count;
    if (count > 0) product.uneven[part] = std::llround(even * sum / static_cast<double>(count));
  }
}

void hold(const ShardedOp& held, ShardedOp& to) {
  if (to.experts) {
    to.messages = to.experts;
    to.experts = held.experts;
  }
  to.input = held.input, to.output = held.output;
  to.whole_input = held.whole_input, to.whole_output = held.whole_output;
  to.saved = held.saved;
  to.backward_scratch = held.backward_scratch;
  to.scratch_forward = held.scratch_forward, to.scratch_backward = held.scratch_backward;
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
  exchange.sent = Bytes{tokens_sent(region, op) * token};
  exchange.came = Bytes{tokens_that_come(region, op) * token};
  exchange.gathered = exchange.came * layout.expert_tensor();
  exchange.weights = Bytes{tokens_sent(region, op) * bytes_of(DType::fp32)};
  exchange.weights_came = Bytes{tokens_that_come(region, op) * bytes_of(DType::fp32)};
  exchange.weights_gathered = exchange.weights_came * layout.expert_tensor();
  const Bytes own{region.sequence_tokens * token};
  const auto pass = [&](Bytes bytes) {
    return memory_kernel(OpKind::elementwise, region, op, static_cast<double>(bytes.count()));
  };
  if (layout.token_dispatcher == TokenDispatcher::allgather)
    shard_gathered(region, exchange, own);
  else if (is_fused(layout.token_dispatcher))
    shard_fused(region, exchange, own);
  const bool all_to_all = layout.token_dispatcher == TokenDispatcher::alltoall;
  exchange.permute = exchange.unpermute =
      pass(all_to_all ? own + exchange.sent : exchange.whole + exchange.came);
  if (layout.eight_bit_dispatch) {
    // Tokens that come in 8 bits are copied so; before, a pass casts the rank's own tokens.
    const double element = dispatched_element / region.element;
    const double moved = element * static_cast<double>((exchange.whole + exchange.came).count()) +
                         (1 + element) * static_cast<double>(own.count());
    exchange.permute = pass(bytes_from(moved));
    exchange.permute.launches = 2;
  }
  const bool exchanged = layout.expert_parallel > 1 || layout.expert_tensor() > 1;
  if (weighs_at_origin(region.model->execution, layout))
    shard_titan_way(region, op, exchange);
  else if (all_to_all && exchanged && experts_held(region) > 1)
    exchange.sort = pass(exchange.gathered * 2);
  const bool dispatch = op.kind == ModelOpKind::dispatch;
  to.input = dispatch ? own : exchange.gathered;
  to.output = dispatch ? exchange.gathered : own;
  to.saved = bytes_from(op.saved_fixed_bytes * static_cast<double>(choices_held(region, op)));
  if (weighs_at_origin(region.model->execution, layout))
    to.saved = to.saved * layout.expert_tensor();
  to.experts = exchange;
}

}  // namespace sim
