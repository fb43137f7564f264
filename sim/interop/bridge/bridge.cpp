// Megatron-Bridge's YAML: an override of a recipe's ConfigContainer, or a whole container as
// to_yaml() writes it; and the configuration that a recipe in Python makes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "sim/base/near_names.hpp"
#include "sim/config/data_files.hpp"
#include "sim/interop/bridge/bridge_keys.hpp"
#include "sim/interop/bridge/bridge_recipe.hpp"
#include "sim/interop/bridge/nemo.hpp"
#include "sim/interop/carried.hpp"
#include "sim/interop/hub_models.hpp"
#include "sim/interop/layout_report.hpp"
#include "sim/interop/megatron/megatron_experts.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

void read_activation(const ObjectReader& model, MegatronConfig& config) {
  Flag gated;
  read_setting(model, "gated_linear_unit", gated);
  const std::optional<ValueReader> value = model.find("activation_func");
  if (!value) {
    if (gated.value_or(false))
      model.problem("gated_linear_unit", "which activation is gated? give activation_func, too");
    return;
  }
  std::string function;
  if (value->is_object()) {
    const ObjectReader object = value->object();
    object.ignore_unknown();
    function = object.text_or("_target_", "");
  } else {
    function = value->peek_text().value_or("");
  }
  for (const BridgeActivation& name : bridge_activations)
    if (name.function == function && name.gated == gated.value_or(false)) {
      config.activation = std::string{name.word};
      return;
    }
  value->problem(fmt::format("the activation '{}'{} is not modelled", function,
                             gated.value_or(false) ? " with a gate" : ""));
}

// A class of another architecture than GPTModelProvider's.
void check_provider(const ObjectReader& model) {
  const std::string name = model.text_or("_target_", "");
  for (const char* other : {"T5", "VL"})
    if (name.find(other) != std::string::npos)
      model.problem("_target_", fmt::format("the architecture of {} is not modelled", name));
}

// A class that sets defaults of its own (Llama3ModelProvider8B) tells nothing where its fields are
// written out, as a run that is saved does; what is left out would be taken from GPTModelProvider.
void check_defaults(const ObjectReader& model, Imported& read) {
  const std::string whole = model.text_or("_target_", "");
  const std::string name = whole.substr(whole.rfind('.') + 1);
  for (const char* known :
       {"GPTModelProvider", "MLAModelProvider", "HybridModelProvider", "MambaModelProvider"})
    if (name == known) return;
  std::vector<std::string> missing;
  for (const char* key : {"position_embedding_type", "normalization", "gated_linear_unit",
                          "add_bias_linear", "share_embeddings_and_output_weights"})
    if (!model.has(key)) missing.push_back(fmt::format("model.{}", key));
  if (missing.empty()) return;
  if (name.empty())
    read.notes.push_back({"model._target_", fmt::format("not given: {} as GPTModelProvider has it",
                                                        fmt::join(missing, ", "))});
  else
    model.problem("_target_", fmt::format("the defaults of {} are not known here: write out {}, or "
                                          "name the model with --model",
                                          name.substr(0, 80), fmt::join(missing, ", ")));
}

// A layout as a list of what is in each stage, [[embedding, decoder], [decoder, loss]], in the
// letters of its text (megatron/core/transformer/enums.py, LayerType).
std::string layout_text(const ValueReader& layout) {
  std::string text;
  bool first = true;
  for (const ValueReader& stage : layout.list()) {
    if (!std::exchange(first, false)) text += '|';
    if (!stage.is_list()) {
      stage.problem("a stage of a pipeline layout is a list, such as [embedding, decoder]");
      return text;
    }
    for (const ValueReader& layer : stage.list()) {
      const std::string name = layer.peek_text().value_or("");
      constexpr std::array<std::pair<std::string_view, char>, 8> letters{{{"embedding", 'E'},
                                                                          {"decoder", 't'},
                                                                          {"loss", 'L'},
                                                                          {"mtp", 'm'},
                                                                          {"E", 'E'},
                                                                          {"t", 't'},
                                                                          {"L", 'L'},
                                                                          {"m", 'm'}}};
      const auto letter =
          std::ranges::find(letters, name, [](const auto& row) { return row.first; });
      if (letter == letters.end())
        layer.problem(fmt::format("'{}' is no layer; allowed: embedding, decoder, loss", name));
      else
        text += letter->second;
    }
  }
  return text;
}

// read_made() reads an object that stands for an enumeration of Megatron-LM, as to_yaml() writes
// its number (megatron/core/transformer/enums.py at d98e8a64). Another one gives a value that is
// not known.
template <class T>
void read_made(const ValueReader& value, const char* place, Setting<T>& into) {
  const ObjectReader object = value.object();
  object.ignore_unknown();
  const std::string maker = object.text_or("_target_", "");
  if constexpr (std::is_same_v<T, std::string>)
    if (const auto numbers = object.find("_args_");
        maker.ends_with("AttnBackend") && numbers && numbers->is_list()) {
      constexpr std::array<const char*, 5> backends{"flash", "fused", "unfused", "local", "auto"};
      const std::vector<ValueReader> all = numbers->list();
      for (std::size_t i = 0; i < backends.size(); ++i)
        if (all.size() == 1 && all[0].peek_text() == fmt::format("{}", i + 1))
          into = {backends[i], value};
      if (into) return;
    }
  value.problem(
      fmt::format("{} is what {} gives, which cannot be evaluated here; give its value: "
                  "--set {}=VALUE",
                  place, maker.empty() ? "an object" : maker.substr(0, 80), place));
}

template <class T>
void read_bridge(const ObjectReader& root, const Spelling& name, Setting<T>& into) {
  for (const char* place : name.bridge) {
    if (!place) continue;
    const auto [section, key] = split_bridge_place(place);
    const std::optional<ValueReader> found = root.find(section);
    if (!found || !found->is_object()) continue;
    const std::optional<ValueReader> value = found->object().find(key);
    Setting<T> read;
    if constexpr (std::is_same_v<T, std::string>)
      if (key == "pipeline_model_parallel_layout" && value && value->is_list()) {
        into = {layout_text(*value), value};
        continue;
      }
    if (value && value->is_object())
      read_made(*value, place, read);
    else if (value)
      read_setting(found->object(), key, read);
    if (read && !into) into = read;
  }
}

// A number format of the optimizer's states, as Python and YAML name it: torch.bfloat16.
void read_format(const ObjectReader& root, const char* key, Text& into) {
  const auto optimizer = root.find("optimizer");
  if (!optimizer || !optimizer->is_object() || into) return;
  const auto value = optimizer->object().find(key);
  if (!value) return;
  std::string name = value->peek_text().value_or("");
  if (value->is_object()) {
    const ObjectReader object = value->object();
    object.ignore_unknown();
    name = object.text_or("_target_", "");
  }
  constexpr std::array<std::pair<std::string_view, const char*>, 5> formats{
      {{"torch.float32", "fp32"},
       {"torch.bfloat16", "bf16"},
       {"torch.float16", "fp16"},
       {"torch.uint8", "fp8"},
       {"fp32", "fp32"}}};
  const auto row = std::ranges::find(formats, name, [](const auto& one) { return one.first; });
  if (row != formats.end())
    into = Text{row->second, value};
  else if (!is_neutral(*value, ""))
    value->problem(
        fmt::format("is '{}'; modelled: torch.float32, torch.bfloat16, torch.float16, "
                    "torch.uint8",
                    name.substr(0, 80)));
}

// cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-8B"): the hub's model.
Text hub_name(const ObjectReader& root) {
  Text name;
  const auto model = root.find("model");
  if (!model || !model->is_object()) return name;
  const ObjectReader object = model->object();
  if (object.text_or("_target_", "").starts_with("AutoBridge.")) read_setting(object, "_0", name);
  for (const char* argument : {"_0", "_1", "trust_remote_code", "revision"})
    static_cast<void>(object.has(argument));
  return name;
}

// Defaults of the class that a recipe fills (models/hybrid/hybrid_provider.py at 067f987d); its
// vocabulary is the tokenizer's.
void fill_provider(const ObjectReader& root, MegatronConfig& config) {
  const auto model = root.find("model");
  if (!model || !model->is_object()) return;
  if (model->object().text_or("_target_", "") != "HybridModelProvider") return;
  const auto fill = [](auto& setting, const auto& value) {
    if (!setting) setting = value;
  };
  fill(config.normalization, std::string{"RMSNorm"});
  fill(config.position_embedding_type, std::string{"none"});
  for (Flag* off : {&config.add_bias_linear, &config.share_embeddings})
    fill(*off, false);
  for (Real* dropout : {&config.hidden_dropout, &config.attention_dropout})
    fill(*dropout, 0.0);
  fill(config.mamba_num_groups, std::int64_t{8});
  if (const auto tokenizer = root.find("tokenizer");
      tokenizer && tokenizer->is_object() && !config.vocab_size)
    read_setting(tokenizer->object(), "vocab_size", config.vocab_size);
}

// read_depths() reads the layers of a depth of multi-token prediction.
void read_depths(const MegatronConfig& config, const SettingProblems& problems,
                 TransformerShape& shape) {
  if (shape.mtp_layers == 0) return;
  shape.mtp_repeated = config.mtp_repeated.value_or(false);
  shape.mtp_sixteen_bits = config.mtp_in_bf16.value_or(false);
  if (config.mtp_pattern && shape.hybrid.exists()) {
    shape.mtp_kinds.clear();
    if (!append_pattern(config.mtp_pattern, *config.mtp_pattern, problems, shape.mtp_kinds)) return;
  }
  if (const std::string problem = mtp_problem(shape); !problem.empty())
    problems.problem(config.mtp_layers, "{} (model.mtp_hybrid_override_pattern)", problem);
}

// change_model() makes the changes of a recipe to a model that is known by its name.
void change_model(const SettingProblems& problems, MegatronConfig& config, ImportRequest& request) {
  namespace limits = transformer_limits;
  if (!request.model) return;
  const auto take = [&](const Whole& setting, std::int64_t least, std::int64_t most,
                        std::int64_t& into) {
    if (setting) into = problems.size(setting, *setting, most, least);
  };
  TransformerShape& shape = *request.model;
  take(config.mtp_layers, 0, 16, shape.mtp_layers);
  read_depths(config, problems, shape);
  if (!config.hidden_size) {
    take(config.vocab_size, 1, limits::rows, shape.vocabulary);
    if (!shape.hybrid.exists())
      take(config.num_layers, shape.experts.first_layer + 1, limits::layers, shape.layers);
  }
  // They would say that the file describes the model.
  config.num_layers = Whole{};
  config.hybrid_layer_pattern = config.hybrid_override_pattern = Text{};
}

// read_optimizer() reads from the section optimizer what Megatron-LM's flags say, too
// (recipes/utils/optimizer_utils.py at 067f987d).
void read_optimizer(const ObjectReader& root, MegatronConfig& config) {
  read_format(root, "main_grads_dtype", config.main_gradients);
  read_format(root, "main_params_dtype", config.main_parameters);
  read_format(root, "exp_avg_dtype", config.first_moment);
  read_format(root, "exp_avg_sq_dtype", config.second_moment);
  const auto section = root.find("optimizer");
  if (!section || !section->is_object()) return;
  const ObjectReader optimizer = section->object();
  read_setting(optimizer, "optimizer", config.optimizer);
  read_setting(optimizer, "muon_num_ns_steps", config.newton_schulz_steps);
  read_setting(optimizer, "muon_tp_mode", config.muon_tensor_mode);
}

// Which layers have experts, and which a window, where a list says it, as Megatron-LM's flags spell
// lists.
void spell_layers(MegatronConfig& config) {
  for (Text* layers : {&config.expert_layers, &config.window_skip}) {
    if (!layers->place || !layers->place->is_list()) continue;
    std::ranges::replace(*layers->value, ' ', ',');
    layers->value = "[" + *layers->value + "]";
  }
}

void judge_experts(const ObjectReader& model, bool has_experts, Imported& result) {
  const std::array nothing_without{KnownKey{"moe_*"}};
  if (!has_experts) return judge_keys(model, nothing_without, "model.", result);
  judge_expert_keys(model, KeySpelling::snake_case, "model.", result);
}

struct EightBitMix {
  std::string_view name, recipe;
  bool gathers = true;
  int start_in_bf16 = 0, end_in_bf16 = 0;  // layers
};
constexpr std::array eight_bit_mixes{
    EightBitMix{"bf16_with_fp8_delayed_scaling_mixed", "delayed"},
    EightBitMix{"bf16_with_fp8_current_scaling_mixed", "tensorwise", true, 1, 1},
    EightBitMix{"bf16_with_fp8_subchannel_scaling_mixed", "blockwise", false},
    EightBitMix{"nemotron_h_bf16_with_fp8_current_scaling_mixed", "tensorwise", true, 2, 2},
    EightBitMix{"nanov2_bf16_with_fp8_current_scaling_mixed", "blockwise", true, 2, 2},
    EightBitMix{"bf16_with_mxfp8_mixed", "mxfp8"},
    EightBitMix{"bf16_with_nvfp4_mixed", "nvfp4"},
    EightBitMix{"nemotron_3_super_bf16_with_nvfp4_mixed", "nvfp4", true, 0, 14}};

// The name of a recipe of formats, with '_' for '-', which Megatron-Bridge takes too; empty: an
// object that says its formats itself.
std::string precision_name(const ValueReader& value) {
  std::string name = value.peek_text().value_or("");
  if (value.is_object()) {
    const ObjectReader made = value.object();
    name = made.text_or("_target_", "");
    if (name.empty() || name == "MixedPrecisionConfig" || name == "_perf_precision") return {};
    if (name == "named_mixed_precision") name = made.text("_0");
  }
  std::ranges::replace(name, '-', '_');
  return name;
}

// A recipe of formats by its name (megatron/bridge/training/mixed_precision.py at 067f987d).
// `made`: an object may be what its function makes, with some fields set besides.
void read_precision_recipe(const ObjectReader& root, bool made, MegatronConfig& config) {
  const std::optional<ValueReader> value = root.find("mixed_precision");
  if (!value || (value->is_object() && !made)) return;
  const std::string name = precision_name(*value);
  if (name.empty()) return;
  const auto eight_bits = std::find_if(eight_bit_mixes.begin(), eight_bit_mixes.end(),
                                       [&](const EightBitMix& mix) { return mix.name == name; });
  if (name == "bf16_mixed" || eight_bits != eight_bit_mixes.end()) {
    if (!config.bf16) config.bf16 = true;
    if (!config.grads_in_fp32) config.grads_in_fp32 = true;
  } else if (name == "fp16_mixed") {
    config.fp16 = true;
    if (!config.grads_in_fp32) config.grads_in_fp32 = false;
  } else {
    std::vector<std::string_view> names{"bf16_mixed", "fp16_mixed"};
    for (const EightBitMix& mix : eight_bit_mixes)
      names.push_back(mix.name);
    value->problem(fmt::format(
        "mixed_precision is '{}', which is not known here; {}. To forecast the job so, --set "
        "mixed_precision=NAME",
        name.substr(0, 80), choices_text(name, names)));
  }
  if (eight_bits == eight_bit_mixes.end()) return;
  Flag& gathers = multiply_as(eight_bits->recipe, value, config);
  if (eight_bits->gathers && !gathers) gathers = true;
  if (eight_bits->end_in_bf16 == 0) return;
  if (!config.bf16_ends) config.bf16_ends = true;
  if (!config.bf16_at_start) config.bf16_at_start = eight_bits->start_in_bf16;
  if (!config.bf16_at_end) config.bf16_at_end = eight_bits->end_in_bf16;
}

// Defaults of MixedPrecisionConfig, where a recipe makes one by its class.
void fill_precision_class(const ObjectReader& root, MegatronConfig& config) {
  const std::optional<ValueReader> value = root.find("mixed_precision");
  if (!value || !value->is_object()) return;
  if (value->object().text_or("_target_", "") != "MixedPrecisionConfig") return;
  if (!config.grads_in_fp32) config.grads_in_fp32 = true;
  if (config.fp8 && !config.fp8_recipe) config.fp8_recipe = std::string{"tensorwise"};
  for (Whole* ends : {&config.bf16_at_start, &config.bf16_at_end})
    if (!*ends) *ends = std::int64_t{0};
}

// The lengths of what is packed are in the data (data/builders/gpt_sft.py at 067f987d).
void note_packing(const ObjectReader& root, Imported& read) {
  const std::optional<ValueReader> data = root.find("dataset");
  if (!data || !data->is_object()) return;
  const ObjectReader dataset = data->object();
  for (const char* key : {"offline_packing_specs", "packed_sequence_specs"}) {
    const std::optional<ValueReader> specs = dataset.find(key);
    if (specs && !is_neutral(*specs, ""))
      read.notes.push_back(
          {"dataset",
           "sequences are packed: give their lengths, layout.packing.lengths; forecast as filled"});
  }
}

void read_model_section(const ObjectReader& model, bool experts, MegatronConfig& config,
                        Imported& read) {
  read_activation(model, config);
  check_provider(model);
  judge_experts(model, experts, read);
  read_graph_switch(model, "cuda_graph_impl", read);
  read_graph_scope(model, {"cuda_graph_scope", "cuda_graph_modules"}, read);
}

// Formats by module: an object as containers have it, what RecipeConfig.from_config_dict() is given
// in a recipe, or the file that load_quantization_recipe() reads there.
void read_quant_recipe(const ObjectReader& root, MegatronConfig& config) {
  const auto model = root.find("model");
  const auto recipe =
      model && model->is_object() ? model->object().find("quant_recipe") : std::nullopt;
  if (!recipe) return;
  if (!recipe->is_object()) {
    if (!is_neutral(*recipe, ""))
      recipe->problem(
          "is no quantization recipe; allowed: {matchers: [...], config_dict: {...}}, or "
          "null");
    return;
  }
  const ObjectReader object = recipe->object();
  const std::string made_by = object.text_or("_target_", "");
  if (made_by == recipe_file_class) {
    const ValueReader file = object.at("_0");
    config.module_recipe = {load_module_recipe(file.text(), file), recipe};
  } else if (made_by.ends_with("from_config_dict")) {
    config.module_recipe = {read_module_recipe(object.object("_0")), recipe};
  } else {
    config.module_recipe = {read_module_recipe(object), recipe};
  }
}

// add_read() adds what was read beside Megatron-LM's configuration.
void add_read(const Layout& adapters, const Imported& read, Imported& result) {
  result.layout.lora_rank = adapters.lora_rank;
  result.layout.lora_modules = adapters.lora_modules;
  result.layout.expert_adapters = adapters.expert_adapters;
  result.graphs = read.graphs;
  result.graph_scope = read.graph_scope;
  leave_single_choice(result);
  result.ignored.insert(result.ignored.end(), read.ignored.begin(), read.ignored.end());
  result.carried = read.carried;
  result.notes.insert(result.notes.begin(), read.notes.begin(), read.notes.end());
}

void take_recipe_model(const ObjectReader& root, ImportRequest& request, MegatronConfig& config,
                       Imported& read) {
  take_hub_model(hub_name(root), request, read);
  fill_provider(root, config);
  if (!config.offload_activations) config.offload_layers = Whole{};  // cpu_offloading's
  change_model(SettingProblems{root}, config, request);
}

// import_settings() is for a file, or for what a recipe in Python makes.
template <class File>
Imported import_settings(const File& file, const ImportRequest& asked) {
  constexpr bool recipe = std::is_same_v<File, EvaluatedPython>;
  const ObjectReader root = file.root_object();
  ImportRequest request = asked;
  Imported read;
  MegatronConfig config;
  for_each_setting(config,
                   [&](const Spelling& name, auto& setting) { read_bridge(root, name, setting); });
  read_optimizer(root, config);
  // As an enumeration of Python: AttnBackend.flash.
  if (config.attention_backend && (*config.attention_backend).starts_with("AttnBackend."))
    config.attention_backend.value->erase(0, std::string_view{"AttnBackend."}.size());
  spell_layers(config);
  read_quant_recipe(root, config);
  if (recipe) take_recipe_model(root, request, config, read);
  const bool experts =
      (request.model && request.model->experts.count > 0) || config.num_experts.value_or(0) > 0;
  note_packing(root, read);
  read_precision_recipe(root, recipe, config);
  if (recipe) fill_precision_class(root, config);
  Layout adapters;
  read_peft(root, experts, adapters, read);
  if (recipe) read_recipe(root, config, read);
  if (const std::optional<ValueReader> model = root.find("model"); model && model->is_object()) {
    read_model_section(model->object(), experts, config, read);
    if (!recipe && !request.model) check_defaults(model->object(), read);
  }
  for (Text* format : {&config.fp8, &config.fp4})
    if (*format && (**format == "none" || **format == "null")) *format = Text{};
  judge_bridge_sections(root, read);
  carry_settings(root, Target::nemo, read);
  if (recipe) note_unknown_keys(root, "", read);
  if (!config.max_position_embeddings) config.max_position_embeddings = config.seq_length;
  file.finish();
  const MegatronRules rules{.fp32_gradients_by_default = false,
                            .groups_without_switch = true,
                            .fuses_loss = true,
                            .checks_gradients = false,
                            .gathers_need_gradients = false,
                            .layout_excludes_virtual_stages = false};
  Imported result = scenario_of_megatron(config, rules, request, root);
  add_read(adapters, read, result);
  file.finish();
  report_layout_problems(root, result);
  file.finish();
  return result;
}

}  // namespace

Imported import_bridge(const Document& yaml, const ImportRequest& request) {
  return import_settings(yaml, request);
}

Imported import_bridge_recipe(const EvaluatedPython& recipe, const std::string& name,
                              const ImportRequest& request) {
  ImportRequest known = request;
  if (known.gpus == 0) known.gpus = gpus_of_recipe(name);
  // Where the file that names the model is not there.
  const std::string model =
      known.model || hub_name(recipe.root_object()) ? "" : model_of_recipe(name);
  if (model.empty()) return import_settings(recipe, known);
  known.model = load_model(find_data_file("models", model)).shape;
  Imported result = import_settings(recipe, known);
  result.notes.push_back(
      {"model", fmt::format("{}, by the name of the recipe: what names it is not "
                            "read; else give --model",
                            model)});
  return result;
}

Imported import_nemo(const Document& yaml, const ImportRequest& request) {
  return yaml.root_object().has("trainer") ? import_nemo1(yaml, request)
                                           : import_bridge(yaml, request);
}

}  // namespace sim
