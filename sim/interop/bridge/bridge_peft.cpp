// The section `peft` of Megatron-Bridge (peft/lora.py at 067f987d): low-rank adapters.
#include <fmt/format.h>

#include <algorithm>

#include "sim/interop/handover.hpp"
#include "sim/interop/settings.hpp"

namespace sim {
namespace {

constexpr int bridge_rank = 32;  // LoRA.dim

void read_modules(const ObjectReader& peft, Layout& layout) {
  if (!peft.has("target_modules")) return;
  layout.lora_modules.clear();
  for (const ValueReader& entry : peft.list("target_modules")) {
    const std::string name = entry.text();
    const std::optional<LoraModule> module = from_word<LoraModule>(name);
    if (!module)
      return entry.problem(
          fmt::format("'{}' is no module with an adapter that is modelled; allowed: linear_qkv, "
                      "linear_proj, linear_fc1, linear_fc2",
                      name.substr(0, 80)));
    if (std::ranges::find(layout.lora_modules, *module) == layout.lora_modules.end())
      layout.lora_modules.push_back(*module);
  }
}

// LoRA.share_expert_adapters.
void read_experts(const ObjectReader* peft, Layout& layout) {
  const auto is_of_experts = [](LoraModule module) {
    return module == LoraModule::linear_fc1 || module == LoraModule::linear_fc2;
  };
  if (std::ranges::none_of(layout.lora_modules, is_of_experts)) return;
  Flag shared;
  if (peft != nullptr) read_setting(*peft, "share_expert_adapters", shared);
  layout.expert_adapters = shared.value_or(true) ? ExpertAdapters::shared : ExpertAdapters::each;
}

}  // namespace

void read_peft(const ObjectReader& root, bool experts, Layout& layout, Imported& result) {
  const std::optional<ValueReader> value = root.find("peft");
  if (!value || is_neutral(*value, "")) return;
  layout.lora_rank = bridge_rank;
  if (!value->is_object()) {
    if (value->peek_text().value_or("") != "lora")
      value->problem(fmt::format("peft is '{}'; modelled: lora",
                                 value->peek_text().value_or("").substr(0, 80)));
    if (experts) read_experts(nullptr, layout);
    return;
  }
  const ObjectReader peft = value->object();
  std::string kind = peft.has("_target_") ? peft.text("_target_") : "LoRA";
  // default_peft_config(peft_scheme) of recipes/utils/finetune_utils.py: LoRA but where asked else.
  if (kind == "default_peft_config") {
    const std::string scheme = peft.has("_0") ? peft.text("_0") : "lora";
    kind = scheme == "lora" || scheme == "peft_scheme" ? "LoRA" : scheme;
  }
  if (!kind.ends_with(".LoRA") && kind != "LoRA")
    peft.problem("_target_", fmt::format("is '{}'; modelled: LoRA", kind.substr(0, 80)));
  if (peft.has("dim")) layout.lora_rank = static_cast<int>(peft.integer("dim", {1, 65'536}));
  read_modules(peft, layout);
  if (experts) read_experts(&peft, layout);
  judge_keys(peft, known_keys("bridge", "peft"), "peft.", result);
}

}  // namespace sim
