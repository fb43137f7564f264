// Source: pytorch/torchtitan b5bcd76c, trainer.py (Trainer.Config), config/configs.py,
// models/*/config_registry.py, models/*/__init__.py (model_registry).
#include "sim/interop/torchtitan/torchtitan_registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/base/near_names.hpp"
#include "sim/interop/torchtitan/torchtitan.hpp"

namespace sim {
namespace {

std::vector<std::string> functions_of(const ObjectReader& file) {
  std::vector<std::string> names;
  for (const std::string& name : file.keys()) {
    const ObjectReader function = file.object(name);
    function.ignore_unknown();
    if (function.has("_returns") && !name.starts_with("_")) names.push_back(name);
  }
  return names;
}

// Functions are named by model and flavor; those of experiments have a word in front.
std::string model_of_function(std::string_view name) {
  constexpr std::string_view experiment = "graph_trainer_";
  if (name.starts_with(experiment)) name.remove_prefix(experiment.size());
  for (std::size_t end = name.size(); end != std::string_view::npos && end > 0;
       end = name.rfind('_', end - 1))
    if (is_torchtitan_model(name.substr(0, end))) return std::string{name.substr(0, end)};
  return {};
}

// The linears of which layers NVFP4LinearConverter converts: names of layers ("layers.3."), from
// the first on, or of all ("layers"). What the file computes is not read.
void read_fp4_layers(const ObjectReader& made, RegistryModel& model, Imported& result) {
  const std::optional<ValueReader> names = made.find("fqns");
  if (!names) return;
  int layers = 0;
  bool all = false, known = names->is_list();
  if (known)
    for (const ValueReader& item : names->list()) {
      const std::string name = item.peek_text().value_or("");
      all |= name == "layers" || name == "layers.";
      known &= all || name == fmt::format("layers.{}.", layers++);
    }
  if (known && !all) model.fp4_layers = layers;
  if (!known)
    result.notes.push_back({"layout.bf16_layers",
                            "which layers NVFP4LinearConverter leaves in 16 bits is not read from "
                            "fqns; all are modelled in 4 bits"});
}

void read_converter(const ValueReader& item, RegistryModel& model, Imported& result) {
  if (!item.is_object()) return item.problem("a converter is expected, as Float8LinearConverter");
  const ObjectReader made = item.object();
  made.ignore_unknown();
  const std::string name = made.text_or("_target_", "");
  Flag emulate;
  read_setting(made, "emulate", emulate);
  if (emulate.value_or(false)) emulate.place->problem("emulated 8-bit products are not modelled");
  if (name == "Float8LinearConverter.Config") {
    model.linear_fp8 = true;
    Text recipe;
    read_setting(made, "recipe_name", recipe);
    const bool high = recipe.value_or("rowwise") == "rowwise_with_gw_hp";
    result.framework.execution.eight_bit =
        high ? EightBit::torchao_rowwise_with_gw_hp : EightBit::torchao_rowwise;
    return;
  }
  if (name == "Float8GroupedExpertsConverter.Config") {
    model.grouped_fp8 = true;
    return;
  }
  if (name == "MXFP8LinearConverter.Config" || name == "MXFP8GroupedExpertsConverter.Config") {
    (name.starts_with("MXFP8L") ? model.linear_fp8 : model.grouped_fp8) = model.blocks = true;
    return;
  }
  if (name == "NVFP4LinearConverter.Config") {
    model.linear_fp4 = true;
    return read_fp4_layers(made, model, result);
  }
  item.problem(
      fmt::format("the converter {} is not modelled; known: Float8LinearConverter, "
                  "Float8GroupedExpertsConverter, MXFP8LinearConverter, "
                  "MXFP8GroupedExpertsConverter, NVFP4LinearConverter",
                  name.substr(0, 80)));
}

void note_attention(const ObjectReader& spec, Imported& result) {
  Text kernel;
  read_setting(spec, "attn_backend", kernel);
  const std::string word = kernel.value_or("sdpa");
  if (word.starts_with("flex") || word == "varlen")
    result.notes.push_back({"model_spec.attn_backend",
                            fmt::format("{}: modelled as FlashAttention over whole sequences, with "
                                        "no documents packed into them",
                                        word)});
}

constexpr std::array beside_steps{"hf_assets_path", "dump_folder", "profiler",   "metrics",
                                  "tokenizer",      "dataloader",  "checkpoint", "validator",
                                  "lr_scheduler",   "_name",       "_returns",   "_target_"};

}  // namespace

bool is_torchtitan_registry(std::string_view text) {
  return text.find("Trainer.Config(") != std::string_view::npos;
}

std::string registry_function(const Document& file, const std::string& name) {
  const ObjectReader all = file.root_object();
  all.ignore_unknown();
  const std::vector<std::string> names = functions_of(all);
  if (name.empty() && names.size() == 1) return names.front();
  if (std::ranges::find(names, name) != names.end()) return name;
  const std::vector<std::string_view> views{names.begin(), names.end()};
  const std::string allowed = names.empty() ? "the file has none" : choices_text(name, views);
  throw InputError{{file.name(), 0, 0},
                   name.empty()
                       ? fmt::format("which configuration? give --recipe NAME; {}", allowed)
                       : fmt::format("there is no configuration '{}'; {}", name, allowed)};
}

RegistryModel read_registry_model(const ObjectReader& root, Imported& result) {
  RegistryModel model;
  const std::string function = root.text("_name");
  model.model = model_of_function(function);
  const std::optional<ValueReader> value = root.find("model_spec");
  if (!value || !value->is_object()) {
    root.problem(fmt::format("{} has no model_spec = model_registry(...)", function));
    return model;
  }
  const ObjectReader spec = value->object();
  spec.ignore_unknown();
  read_setting(spec, spec.has("_0") ? "_0" : "flavor", model.flavor);
  read_setting(spec, "moe_comm_backend", model.dispatcher);
  model.drops = spec.has("non_blocking_capacity_factor");
  note_attention(spec, result);
  if (spec.has("num_mtp_layers"))
    spec.problem("num_mtp_layers", "multi-token prediction is not modelled as torchtitan runs it");
  const std::optional<ValueReader> converters = spec.find("converters");
  if (converters && converters->is_list())
    for (const ValueReader& item : converters->list())
      read_converter(item, model, result);
  else if (converters && !is_neutral(*converters, ""))
    converters->problem("the converters cannot be evaluated here; write them as a list");
  return model;
}

Recompute registry_recompute(const ObjectReader& root) {
  const std::optional<ValueReader> value = root.find("activation_checkpoint");
  const std::vector<std::string> keys = root.keys();
  const bool none = std::ranges::find(keys, "activation_checkpoint") != keys.end();
  if (!value) return none ? Recompute::none : Recompute::operators;  // Trainer.Config: SelectiveAC
  if (!value->is_object()) {
    if (!is_neutral(*value, ""))
      value->problem(
          "cannot be evaluated here; known: SelectiveAC.Config(), FullAC.Config(), None");
    return Recompute::none;
  }
  const ObjectReader policy = value->object();
  policy.ignore_unknown();
  const std::string name = policy.text_or("_target_", "");
  if (name == "SelectiveAC.Config") return Recompute::operators;
  if (name == "FullAC.Config") return Recompute::full;
  value->problem(fmt::format("the policy {} is not modelled; known: SelectiveAC, FullAC, None",
                             name.substr(0, 80)));
  return Recompute::none;
}

// components/loss.py, ChunkedLossWrapper.Config, whose num_chunks is 8.
void take_loss_chunks(const ObjectReader& loss, Imported& result) {
  const std::int64_t chunks = loss.has("num_chunks") ? loss.integer("num_chunks", {1, 65'536}) : 8;
  if (result.layout.pipeline_parallel > 1)
    result.notes.push_back({"loss",
                            "the loss in chunks of tokens, which holds fewer logits, is modelled "
                            "in one with pipeline parallelism"});
  else
    result.layout.loss_chunks = static_cast<int>(chunks);
}

void judge_registry_keys(const ObjectReader& root, Imported& result) {
  for (const char* key : beside_steps)
    if (const auto value = root.find(key)) {
      if (value->is_object()) value->object().ignore_unknown();
      if (*key != '_') result.ignored.emplace_back(key);
    }
  if (const auto loss = root.find("loss"); loss && loss->is_object()) {
    const ObjectReader made = loss->object();
    made.ignore_unknown();
    if (made.text_or("_target_", "").starts_with("ChunkedLoss")) take_loss_chunks(made, result);
  }
  if (const auto imports = root.find("override"); imports && imports->is_object()) {
    imports->object().ignore_unknown();
    result.notes.push_back({"override", "kernels in the place of the model's are not read", true});
  }
  // A helper that is given the configuration sets kernels; a line may set anything.
  if (const auto calls = root.find("_calls"); calls && calls->is_list())
    for (const ValueReader& call : calls->list())
      result.notes.push_back({"config", fmt::format("not read: {}()", call.text())});
  if (const auto lines = root.find("_unread"); lines && lines->is_list())
    for (const ValueReader& line : lines->list()) {
      const std::string text = line.text();
      const bool harmless = std::ranges::any_of(beside_steps, [&](const char* section) {
        return text.find(fmt::format(".{}", section)) != std::string::npos;
      });
      if (harmless || text.starts_with("assert ") || text == "pass") continue;
      line.problem(
          fmt::format("'{}' is not read, and may change the step: write plain values, or "
                      "forecast without such lines: --set _unread=none",
                      text));
    }
  std::erase_if(result.ignored, [](const std::string& key) { return key.ends_with("_target_"); });
  note_unknown_keys(root, "", result);
}

}  // namespace sim
