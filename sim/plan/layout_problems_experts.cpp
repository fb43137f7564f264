// Checks of a layout: mixtures of experts, and latent attention.
#include <fmt/format.h>

#include "sim/plan/layout_problem_list.hpp"

namespace sim {
namespace {

class ExpertChecker {
 public:
  ExpertChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    experts();
    latent_attention();
  }

 private:
  void experts() {
    if (!model_.has_experts()) {
      for (const auto& [key, value] :
           {std::pair{"expert_parallel", layout_.expert_parallel - 1},
            std::pair{"expert_tensor_parallel", layout_.expert_tensor_parallel},
            std::pair{"moe.dispatcher", static_cast<int>(layout_.token_dispatcher)},
            std::pair{"moe.dispatch_sms", layout_.dispatch_sms},
            std::pair{"moe.choice", static_cast<int>(layout_.expert_choice)},
            std::pair{"moe.capacity_factor", layout_.expert_capacity > 0 ? 1 : 0},
            std::pair{"moe.pad_to_capacity", layout_.pad_to_capacity ? 1 : 0},
            std::pair{"moe.load", layout_.expert_load.exists() ? 1 : 0},
            std::pair{"moe.load_cv", layout_.expert_load_cv > 0 ? 1 : 0},
            std::pair{"overlap.shared_experts", layout_.overlap_shared_experts ? 1 : 0},
            std::pair{"overlap.expert_exchange", layout_.overlap_expert_exchange ? 1 : 0},
            std::pair{"overlap.delay_wgrad", layout_.delay_weight_gradients ? 1 : 0}})
        if (value != 0) list_.problem(key, "{} is given, but {} has no experts", key, model_.name);
      return;
    }
    split_of_experts();
    check_expert_load(layout_, model_, list_);
    check_dispatcher(layout_, model_, list_);
    check_exchange_overlap(layout_, model_, list_);
    // training/arguments.py: "sequence parallelism must be used" with tensor parallelism.
    if (layout_.tensor_parallel > 1 && !layout_.sequence_parallel)
      list_.problem(
          "sequence_parallel",
          "sequence_parallel is false with tensor_parallel = {}; a mixture of experts needs it",
          layout_.tensor_parallel);
    shard_group();
    if (runs_as_torchtitan(model_.execution)) return torchtitan();
    if (is_of_automodel(model_.execution.experts)) return automodel();
    if (layout_.recompute == Recompute::operators)
      list_.problem("recompute",
                    "recompute is operators; allowed with a mixture of experts: none, selective, "
                    "full, and with the experts of torchtitan and automodel operators");
    if (!runs_as_megatron(model_.execution))
      list_.problem(
          "framework",
          "a mixture of experts is modelled as Megatron-LM, torchtitan and NeMo Automodel "
          "run it; allowed: framework megatron, torchtitan, or framework.experts "
          "automodel, automodel_each");
  }

  // A shard group has whole copies of the experts (torchtitan's mesh [dp_replicate, efsdp, ep]).
  void shard_group() {
    const int copy = layout_.expert_tensor() * layout_.expert_parallel;
    const int ranks = layout_.tensor_parallel * layout_.shard_group;
    if (layout_.shard_group == 0 || ranks % copy == 0) return;
    list_.problem("shard_group",
                  "tensor_parallel x shard_group = {} x {} is no multiple of "
                  "expert_tensor_parallel x expert_parallel = {}",
                  layout_.tensor_parallel, layout_.shard_group, copy);
  }

  // pytorch/torchtitan 73a0e697 (v0.2.2), config/job_config.py and models/llama4/infra/
  // parallelize.py, apply_moe_ep_tp; b5bcd76c, models/common/token_dispatcher.py.
  void torchtitan() {
    const int etp = layout_.expert_tensor(), tp = layout_.tensor_parallel;
    if (layout_.expert_parallel == 1 ? etp != tp : etp != 1 && etp != tp)
      list_.problem("expert_tensor_parallel",
                    "expert_tensor_parallel is {} with tensor_parallel {} and expert_parallel {}; "
                    "allowed with framework torchtitan: {}{}",
                    etp, tp, layout_.expert_parallel, layout_.expert_parallel > 1 ? "1, " : "", tp);
    refuse("moe.dispatcher", layout_.token_dispatcher == TokenDispatcher::allgather,
           "framework torchtitan", "alltoall, deepep, hybridep");
    as_megatron_alone("framework torchtitan");
  }

  // `by`: who has no such thing.
  void refuse(const char* key, bool is, const std::string& by, const char* allowed) {
    if (is) list_.problem(key, "{} is not available with {}; allowed: {}", key, by, allowed);
  }
  void as_megatron_alone(const std::string& by) {
    refuse("moe.capacity_factor", layout_.expert_capacity > 0, by, "0");
    refuse("overlap.shared_experts", layout_.overlap_shared_experts, by, "false");
    refuse("overlap.expert_exchange", layout_.overlap_expert_exchange, by, "false");
    refuse("recompute", layout_.recompute == Recompute::selective, by, "none, operators, full");
  }

  // NVIDIA-NeMo/Automodel 36044ad3, components/moe/parallelizer.py: expert parallelism over all
  // ranks of a stage, no expert split by its features.
  void automodel() {
    const std::string by = fmt::format("framework.experts {}", word(model_.execution.experts));
    refuse("expert_tensor_parallel", layout_.expert_tensor() > 1, by, "1");
    refuse("moe.dispatcher",
           layout_.expert_parallel > 1 && layout_.token_dispatcher == TokenDispatcher::alltoall, by,
           "allgather, deepep, hybridep");
    as_megatron_alone(by);
    if (layout_.recompute == Recompute::operators &&
        layout_.token_dispatcher == TokenDispatcher::allgather)
      list_.problem("recompute",
                    "recompute is operators with moe.dispatcher allgather, which is not modelled; "
                    "allowed: none, full, or moe.dispatcher deepep, hybridep");
  }

  void split_of_experts() {
    const Experts& experts = model_.shape->experts;
    const int ep = layout_.expert_parallel, etp = layout_.expert_tensor();
    const std::int64_t ranks =
        std::int64_t{layout_.tensor_parallel} * layout_.context_parallel * layout_.data_parallel;
    if (experts.count % ep != 0)
      list_.problem("expert_parallel",
                    "expert_parallel is {}, which does not divide {} experts; allowed: {}", ep,
                    experts.count,
                    LayoutProblemList::divisors_of({experts.count, ranks / std::max(1, etp)}));
    if (ranks % (std::int64_t{etp} * ep) != 0)
      list_.problem(
          "expert_parallel",
          "expert_tensor_parallel x expert_parallel = {} x {} does not divide the {} ranks of a "
          "stage (tensor_parallel x context_parallel x data_parallel)",
          etp, ep, ranks);
    if (experts.feed_forward % etp != 0)
      list_.problem(
          "expert_tensor_parallel",
          "expert_tensor_parallel is {}{}, which does not divide the {} features of an expert", etp,
          layout_.expert_tensor_parallel == 0 ? " (as tensor_parallel)" : "", experts.feed_forward);
    const auto fullest = static_cast<double>(ep);
    if (!(layout_.expert_imbalance >= 1 && layout_.expert_imbalance <= fullest))
      list_.problem(
          "expert_imbalance",
          "expert_imbalance is {}; allowed: 1 (even) to expert_parallel = {} (all tokens to one "
          "rank)",
          layout_.expert_imbalance, ep);
  }

  void latent_attention() {
    if (!model_.has_latent_attention()) return;
    if (layout_.context_parallel > 1 && model_.execution.context != ContextForm::transformer_engine)
      list_.problem(
          "context_parallel",
          "context_parallel is {}, but {} has latent attention, for which it is modelled as "
          "Transformer Engine runs it; allowed: 1",
          layout_.context_parallel, model_.name);
    if (layout_.context_parallel > 1 && layout_.recomputes(RecomputeModule::mla_up_proj))
      list_.problem("recompute_modules",
                    "recompute_modules has mla_up_proj, which is not modelled with "
                    "context_parallel {}; allowed: other modules",
                    layout_.context_parallel);
    if (!is_flash(layout_.attention))
      list_.problem("attention",
                    "attention is unfused; allowed with latent attention: flash, flash-2");
    const Execution& runs = model_.execution;
    if (!runs_as_megatron(runs) && !runs_as_torchtitan(runs) && !model_.has_experts())
      list_.problem("framework",
                    "latent attention is modelled as Megatron-LM and torchtitan run it; allowed: "
                    "framework megatron, torchtitan");
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

// Its dispatcher and grouped products; other frameworks have others.
bool runs_as_megatron(const Execution& runs) {
  return !(runs.flat_parameters || runs.copies_tokens || runs.copies_weights ||
           runs.separate_products || runs.adds_gradients || runs.all_reduces_gradients ||
           runs.gradient_buckets != GradientBuckets::flat ||
           runs.optimizer != OptimizerForm::fused || !is_transformer_engine(runs.eight_bit) ||
           runs.eight_bit == EightBit::transformer_engine_linear);
}

bool runs_as_torchtitan(const Execution& runs) {
  return runs.experts == ExpertForm::torchtitan;
}

void check_experts(const Layout& layout, const Model& model, LayoutProblemList& list) {
  ExpertChecker{layout, model, list}.run();
}

}  // namespace sim
