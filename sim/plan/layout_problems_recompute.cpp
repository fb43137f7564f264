// Checks of a layout: the modules that run again (Layout::recompute_modules).
#include "sim/plan/layout_problem_list.hpp"
#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/plan/sharding/kept_set.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim {
namespace {

class ModuleChecker {
 public:
  ModuleChecker(const Layout& layout, const Model& model, LayoutProblemList& list)
      : layout_{layout}, model_{model}, list_{list} {}

  void run() {
    if (layout_.recompute_modules.empty()) return;
    if (layout_.recompute != Recompute::selective)
      return list_.problem("recompute_modules",
                           "recompute_modules is given, but recompute is {}; allowed: none of "
                           "them, or recompute selective",
                           word(layout_.recompute));
    if (model_.is_layer_list) return;
    for (const RecomputeModule module : layout_.recompute_modules) {
      exists(module);
      overlaps(module);
    }
    framework();
  }

 private:
  void exists(RecomputeModule module) {
    const auto in = [&](const Block& layer) { return has_module(layer, module); };
    if (std::any_of(model_.layers.begin(), model_.layers.end(), in)) return;
    list_.problem("recompute_modules", "{} has no {}; it has {}", model_.name, word(module),
                  modules_of_model());
  }

  std::string modules_of_model() const {
    std::string text;
    for (const auto& entry : words_of(RecomputeModule{}))
      if (std::any_of(model_.layers.begin(), model_.layers.end(),
                      [&](const Block& layer) { return has_module(layer, entry.value); }))
        text += fmt::format("{}{}", text.empty() ? "" : ", ", entry.text);
    return text;
  }

  // A mixture of experts as a whole runs its parts again.
  void overlaps(RecomputeModule module) {
    const bool part =
        module == RecomputeModule::moe_act || module == RecomputeModule::shared_experts;
    if (part && layout_.recomputes(RecomputeModule::moe))
      list_.problem("recompute_modules", "{} is a part of moe; allowed: one of them", word(module));
    beside_exchange(module);
    // Megatron-LM, core/transformer/transformer_config.py, __post_init__.
    const bool before_casts =
        module == RecomputeModule::moe_act || module == RecomputeModule::layernorm;
    if (before_casts && shares_maxima(model_.execution, layout_))
      list_.problem("recompute_modules",
                    "{} and delayed scaling of fp8 products (framework.fp8 {}) do not go together "
                    "in Megatron-LM; allowed with it: core_attn, mla_up_proj, mlp, moe, "
                    "shared_experts",
                    word(module), word(model_.execution.eight_bit));
  }

  // The exchange of tokens, which runs again with the experts, has its own place in a merged pass
  // and beside the shared experts. Megatron-LM: core/transformer/transformer_config.py,
  // __post_init__, "disable moe in recompute_modules".
  void beside_exchange(RecomputeModule module) {
    const bool moe = module == RecomputeModule::moe;
    if (layout_.overlap_expert_exchange && moe)
      list_.problem("recompute_modules",
                    "moe and overlap.expert_exchange do not go together in Megatron-LM; allowed "
                    "with it: core_attn, layernorm, mla_up_proj, mlp, moe_act, shared_experts");
    if (layout_.overlap_shared_experts && moe)
      list_.problem("recompute_modules",
                    "moe is not modelled with overlap.shared_experts; allowed: one of them");
  }

  void framework() {
    const Execution& runs = model_.execution;
    const bool as_megatron = !(runs.keeps_gathered_inputs || runs.separate_products ||
                               runs.copies_tokens || runs.copies_attention);
    if (!as_megatron)
      list_.problem("recompute_modules",
                    "modules run again as Megatron-LM runs them; allowed: framework megatron, or "
                    "recompute without recompute_modules");
  }

  const Layout& layout_;
  const Model& model_;
  LayoutProblemList& list_;
};

}  // namespace

void check_recompute_modules(const Layout& layout, const Model& model, LayoutProblemList& list) {
  ModuleChecker{layout, model, list}.run();
}

}  // namespace sim
