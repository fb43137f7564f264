// Checks of a layout: the exchange of tokens. Megatron-LM's own checks:
// core/transformer/transformer_config.py (__post_init__), core/transformer/moe/token_dispatcher.py
// (MoEFlexTokenDispatcher), training/arguments.py.
#include "sim/plan/layout_problem_list.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/sharding.hpp"

namespace sim {
namespace {

void check_capacity(const Layout& layout, const Model& model, LayoutProblemList& list) {
  const std::int64_t experts = model.shape->experts.count;
  if (layout.expert_capacity > static_cast<double>(experts))
    list.problem("moe.capacity_factor",
                 "moe.capacity_factor is {}; allowed: 0 (no limit) to the number of experts, {}",
                 layout.expert_capacity, experts);
  if (layout.pad_to_capacity && layout.expert_capacity <= 0)
    list.problem("moe.pad_to_capacity",
                 "moe.pad_to_capacity needs moe.capacity_factor above 0, which is what experts are "
                 "padded to");
  if (layout.pad_to_capacity && layout.token_dispatcher == TokenDispatcher::deepep)
    list.problem("moe.pad_to_capacity",
                 "moe.pad_to_capacity is true with moe.dispatcher deepep; allowed: alltoall, "
                 "hybridep");
  if (layout.expert_capacity > 0 && layout.token_dispatcher == TokenDispatcher::allgather)
    list.problem("moe.capacity_factor",
                 "moe.capacity_factor is {} with moe.dispatcher allgather; allowed: alltoall, "
                 "deepep, hybridep",
                 layout.expert_capacity);
}

// Weight gradients, recomputation and 8 bits as the merged passes run them.
void check_merged_passes(const Layout& layout, const Model& model, LayoutProblemList& list) {
  if (layout.expert_parallel == 1)
    list.problem("overlap.expert_exchange",
                 "overlap.expert_exchange needs expert_parallel above 1: there is no exchange");
  if (layout.token_dispatcher == TokenDispatcher::allgather)
    list.problem(
        "overlap.expert_exchange",
        "overlap.expert_exchange is true with moe.dispatcher allgather; allowed: alltoall, "
        "deepep, hybridep");
  if (layout.recompute == Recompute::full || layout.recompute == Recompute::operators)
    list.problem("overlap.expert_exchange",
                 "overlap.expert_exchange is true with recompute {}; allowed: none, selective",
                 word(layout.recompute));
  const bool alone = layout.pipeline_parallel == 1 && layout.schedule == Schedule::one_f_one_b;
  const bool interleaved = layout.schedule == Schedule::interleaved && layout.overlap_pipeline;
  if (!alone && !interleaved)
    list.problem(
        "overlap.expert_exchange",
        "overlap.expert_exchange needs pipeline_parallel 1 with schedule 1f1b, or schedule "
        "interleaved with overlap.pipeline");
  if (shares_maxima(model.execution, layout))
    list.problem("overlap.expert_exchange",
                 "overlap.expert_exchange is not modelled with delayed scaling of fp8 products "
                 "(framework.fp8 {}); allowed: other recipes, bf16, fp16",
                 word(model.execution.eight_bit));
  if (layout.overlap_tensor_products)
    list.problem("overlap.expert_exchange",
                 "overlap.expert_exchange is not modelled with overlap.tensor_products");
  if (holds_units(model, layout)) {
    const char* key =
        layout.pipeline_parallel > 1 ? "framework.defer_gradient_sync" : "framework.no_sync";
    list.problem("overlap.expert_exchange",
                 "overlap.expert_exchange is Megatron-LM's, which reduces gradients in every "
                 "micro-batch, but {} keeps them whole under zero_stage 3; allowed: {} false, or "
                 "zero_stage 0, 1, 2",
                 key, key);
  }
}

}  // namespace

void check_dispatcher(const Layout& layout, const Model& model, LayoutProblemList& list) {
  const TokenDispatcher dispatcher = layout.token_dispatcher;
  if (layout.dispatch_sms > 0 && !is_fused(dispatcher))
    list.problem("moe.dispatch_sms",
                 "moe.dispatch_sms is {} with moe.dispatcher {}; it is of deepep and hybridep",
                 layout.dispatch_sms, word(dispatcher));
  if (layout.eight_bit_dispatch && (!is_fused(dispatcher) || layout.compute_dtype != DType::fp8))
    list.problem("moe.fp8_dispatch",
                 "moe.fp8_dispatch is true with moe.dispatcher {} and compute_dtype {}; it is of "
                 "deepep and hybridep with fp8",
                 word(dispatcher), word(layout.compute_dtype));
  if (dispatcher == TokenDispatcher::deepep && layout.dispatch_sms % 2 != 0)
    list.problem("moe.dispatch_sms",
                 "moe.dispatch_sms is {}; DeepEP takes an even number: half of them send",
                 layout.dispatch_sms);
  if (dispatcher != TokenDispatcher::alltoall && layout.expert_tensor() > 1)
    list.problem(
        "expert_tensor_parallel",
        "expert_tensor_parallel is {} with moe.dispatcher {}; modelled: 1, or moe.dispatcher "
        "alltoall",
        layout.expert_tensor(), word(dispatcher));
  if (is_fused(dispatcher) && layout.expert_parallel == 1)
    list.problem("moe.dispatcher",
                 "moe.dispatcher is {}, which needs expert_parallel above 1; allowed: alltoall, "
                 "allgather",
                 word(dispatcher));
  if (model.shape->experts.latent > 0 && layout.overlap_expert_exchange)
    list.problem("overlap.expert_exchange",
                 "overlap.expert_exchange is not modelled with experts.latent; allowed: false");
  const bool uneven = layout.expert_imbalance != 1 || layout.has_uneven_experts();
  if (layout.expert_choice == ExpertChoice::consecutive && uneven)
    list.problem("moe.choice",
                 "moe.choice is consecutive, which chooses all experts equally often, beside "
                 "expert_imbalance, moe.load or moe.load_cv; allowed: any");
  check_capacity(layout, model, list);
}

void check_exchange_overlap(const Layout& layout, const Model& model, LayoutProblemList& list) {
  if (layout.delay_weight_gradients && !layout.overlap_expert_exchange)
    list.problem("overlap.delay_wgrad", "overlap.delay_wgrad needs overlap.expert_exchange");
  if (layout.overlap_expert_exchange) check_merged_passes(layout, model, list);
  const bool beside = layout.overlap_shared_experts || layout.overlap_expert_exchange;
  if (beside && layout.context_parallel > 1)
    list.problem(
        layout.overlap_shared_experts ? "overlap.shared_experts" : "overlap.expert_exchange",
        "an exchange of tokens beside compute is not modelled with context_parallel {}; "
        "allowed: 1",
        layout.context_parallel);
  if (!layout.overlap_shared_experts) return;
  if (model.shape->experts.shared_feed_forward == 0)
    list.problem("overlap.shared_experts",
                 "overlap.shared_experts is true, but {} has no shared experts", model.name);
  if (layout.token_dispatcher != TokenDispatcher::alltoall)
    list.problem("overlap.shared_experts",
                 "overlap.shared_experts is true with moe.dispatcher {}; allowed: alltoall",
                 word(layout.token_dispatcher));
  if (layout.overlap_expert_exchange)
    list.problem("overlap.shared_experts",
                 "overlap.shared_experts does not go with overlap.expert_exchange");
  if (layout.recompute == Recompute::full)
    list.problem("overlap.shared_experts",
                 "overlap.shared_experts is not modelled with recompute full; allowed: none, "
                 "selective");
}

}  // namespace sim
