// Megatron-Bridge's YAML: an override of a recipe's ConfigContainer.
#include <fmt/format.h>

#include <map>

#include "sim/interop/bridge/bridge_keys.hpp"
#include "sim/interop/carried.hpp"
#include "sim/interop/formats.hpp"
#include "sim/interop/megatron/megatron_experts.hpp"
#include "sim/model/model.hpp"

namespace sim {
namespace {

class Sections {
 public:
  template <class T>
  void operator()(const Spelling& name, const Setting<T>& setting) {
    if (!setting) return;
    for (const char* place : name.bridge)
      if (place && std::string_view{place} != "dataset.seq_length")
        add(place, is_list(place) ? list_of(*setting) : text_of(*setting));
  }
  void add(std::string_view place, const std::string& value) {
    const auto [section, key] = split_bridge_place(place);
    lines_[section] += fmt::format("  {}: {}\n", key, value);
  }
  std::string text() const {
    std::string text;
    for (const char* section : bridge_sections)
      if (const auto found = lines_.find(section); found != lines_.end())
        text += fmt::format("{}:\n{}", section, found->second);
    return text;
  }

 private:
  static bool is_list(std::string_view place) {
    return place == "model.recompute_modules" || place == "model.offload_modules" ||
           place == "model.window_size";
  }
  // Words of a flag, apart.
  template <class T>
  static std::string list_of(const T& value) {
    std::string list = fmt::format("{}", value);
    for (std::size_t at = 0; (at = list.find(' ', at)) != std::string::npos; at += 2)
      list.replace(at, 1, ", ");
    return fmt::format("[{}]", list);
  }
  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
  static std::string text_of(double value) { return fmt::format("{}", value); }
  static std::string text_of(const std::string& value) { return fmt::format("\"{}\"", value); }

  std::map<std::string, std::string> lines_;
};

void write_activation(const std::string& activation, Sections& out) {
  for (const BridgeActivation& name : bridge_activations) {
    if (name.word != activation) continue;
    out.add("model.activation_func", fmt::format("{{_target_: {}, _call_: false}}", name.function));
    out.add("model.gated_linear_unit", name.gated ? "true" : "false");
    return;
  }
}

// Lists, and what a recipe has and this model has not.
void write_experts(const TransformerShape& shape, Sections& out) {
  const Experts& experts = shape.experts;
  if (shape.latent.exists() && shape.latent.query_rank == 0) out.add("model.q_lora_rank", "null");
  if (experts.count == 0) return;
  if (experts.shared_feed_forward == 0)
    out.add("model.moe_shared_expert_intermediate_size", "null");
  out.add("model.moe_layer_freq", expert_layers_list(experts, shape.layers));
}

}  // namespace

Exported export_nemo(const Scenario& scenario) {
  Exported out;
  Refusals refusals;
  MegatronConfig config = megatron_from_scenario(scenario, refusals, out.notes);
  throw_refusals(scenario, Target::nemo, refusals);
  Sections lines;
  const TransformerShape& shape = *scenario.model.shape;
  config.expert_layers = Text{};
  for_each_setting(config,
                   [&](const Spelling& name, const auto& setting) { lines(name, setting); });
  if (config.module_recipe)
    lines.add("model.quant_recipe", module_recipe_text(*config.module_recipe));
  write_activation(config.activation.value_or(""), lines);
  write_experts(shape, lines);
  for (const auto& [place, value] : carried_for(scenario, Target::nemo, out.notes))
    lines.add(place, value);
  if (shape.positions == Positions::learned &&
      shape.max_sequence != scenario.layout.sequence_length)
    out.notes.push_back({"model", "Megatron-Bridge's table of positions has seq_length rows"});
  // Where comm_overlap is set, it decides over the section that it names.
  out.text =
      header_text(scenario, out.notes, "# ",
                  "Overrides for a pre-training recipe of Megatron-Bridge (--config-file).") +
      lines.text();
  return out;
}

}  // namespace sim
