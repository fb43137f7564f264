// Megatron-Bridge's YAML: an override of a recipe's ConfigContainer out; in, such a file or a whole
// container as to_yaml() writes it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/interop/formats.hpp"
#include "sim/interop/megatron_experts.hpp"
#include "sim/interop/nemo.hpp"
#include "sim/interop/settings.hpp"

namespace sim {
namespace {

// Fields of `model` that no setting carries (GPTModelProvider, which is Megatron's
// TransformerConfig). What is neither here nor a setting is told in a note.
constexpr std::array model_keys{
    KnownKey{"_target_"},
    KnownKey{"moe_*"},
    KnownKey{"mtp_num_layers", Verdict::refused, "0",
             "multi-token prediction layers are not modelled"},
    KnownKey{"mtp_*"},
    KnownKey{"is_hybrid_model", Verdict::refused, "", "state-space layers are not modelled"},
    KnownKey{"mamba_*"},
    KnownKey{"linear_*"},
    KnownKey{"heterogeneous_block_specs", Verdict::refused, "",
             "layers of different kinds are not modelled"},
    KnownKey{"experimental_attention_variant", Verdict::refused, "", "not modelled"},
    KnownKey{"dsa_*"},
    KnownKey{"window_size", Verdict::refused, "", "sliding-window attention is not modelled"},
    KnownKey{"window_attn_skip_freq"},
    KnownKey{"cpu_offloading", Verdict::refused, "", "offloading to the host is not modelled"},
    KnownKey{"cpu_offloading_*"},
    KnownKey{"fine_grained_activation_offloading", Verdict::refused, "",
             "offloading to the host is not modelled"},
    KnownKey{"fp4", Verdict::refused, "", "fp4 products are not modelled"},
    KnownKey{"fp4_*"},
    KnownKey{"fp8_param", Verdict::noted, "", "weights are modelled in 16 bits"},
    KnownKey{"fp8_*"},
    KnownKey{"first_last_layers_bf16", Verdict::noted, "", "all layers are modelled alike"},
    KnownKey{"num_layers_at_*"},
    KnownKey{"fp32_residual_connection", Verdict::noted, "",
             "residual connections are modelled in the activations' format"},
    KnownKey{"apply_residual_connection_post_layernorm", Verdict::noted, "",
             "the residual connection is modelled before the norm"},
    KnownKey{"apply_rope_fusion"},
    KnownKey{"apply_*"},
    KnownKey{"bias_activation_fusion"},
    KnownKey{"bias_dropout_fusion"},
    KnownKey{"masked_softmax_fusion"},
    KnownKey{"gradient_accumulation_fusion"},
    KnownKey{"fused_*"},
    KnownKey{"distribute_saved_activations", Verdict::noted, "",
             "kept activations are modelled as whole on every tensor-parallel rank"},
    KnownKey{"hierarchical_context_parallel_sizes", Verdict::noted, "",
             "context parallelism is modelled in one level"},
    KnownKey{"hybrid_context_parallel", Verdict::noted, "",
             "context parallelism is modelled in one level"},
    KnownKey{"tp_comm_overlap_cfg", Verdict::noted, "",
             "user buffers are modelled with Transformer Engine's default methods"},
    KnownKey{"tp_comm_*"},
    KnownKey{"overlap_p2p_comm_warmup_flush", Verdict::noted, "",
             "warm-up and flush are modelled as without it"},
    KnownKey{"microbatch_group_size_per_vp_stage", Verdict::noted, "",
             "groups are modelled as large as the pipeline"},
    KnownKey{"defer_embedding_wgrad_compute", Verdict::noted, "",
             "the head's weight gradient is modelled where it arises"},
    KnownKey{"make_vocab_size_divisible_by", Verdict::noted, "128",
             "the vocabulary is modelled as padded to tensor parallel x 128"},
    KnownKey{"max_position_embeddings"},
    KnownKey{"activation_func_*"},
    KnownKey{"activations_checkpoint_*"},
    KnownKey{"attention_output_gate", Verdict::noted, "", "the gate is not modelled"},
    KnownKey{"attention_softmax_in_fp32"},
    KnownKey{"batch_p2p_*"},
    KnownKey{"barrier_with_L1_time"},
    KnownKey{"autocast_dtype"},
    KnownKey{"enable_autocast"},
    KnownKey{"params_dtype"},
    KnownKey{"pipeline_dtype"},
    KnownKey{"layernorm_*"},
    KnownKey{"memory_efficient_layer_norm"},
    KnownKey{"persist_layer_norm"},
    KnownKey{"qk_clip*"},
    KnownKey{"qk_l2_norm", Verdict::noted, "", "not modelled"},
    KnownKey{"rotary_*"},
    KnownKey{"rope_*"},
    KnownKey{"no_rope_freq"},
    KnownKey{"mrope_section"},
    KnownKey{"seq_len_interpolation_factor"},
    KnownKey{"original_max_position_embeddings"},
    KnownKey{"beta_*"},
    KnownKey{"mscale*"},
    KnownKey{"mup_*"},
    KnownKey{"softmax_*"},
    KnownKey{"init_*"},
    KnownKey{"embedding_init_*"},
    KnownKey{"output_layer_init_method"},
    KnownKey{"perform_initialization"},
    KnownKey{"use_cpu_initialization"},
    KnownKey{"inference_*"},
    KnownKey{"cuda_graph_*"},
    KnownKey{"deterministic_mode", Verdict::noted, "", "kernels are modelled at full speed"},
    KnownKey{"transformer_impl", Verdict::noted, "transformer_engine",
             "kernels are modelled as Transformer Engine's"},
    KnownKey{"transformer_layer_spec"},
    KnownKey{"hf_model_id"},
    KnownKey{"should_pad_vocab"},
    KnownKey{"parallel_output"},
    KnownKey{"scatter_embedding_sequence_parallel"},
    KnownKey{"deallocate_pipeline_outputs"},
    KnownKey{"variable_seq_lengths"},
    KnownKey{"calculate_per_token_loss"},
    KnownKey{"fp16_lm_cross_entropy"},
    KnownKey{"config_logger_dir"},
    KnownKey{"timers"},
    KnownKey{"test_mode"},
    KnownKey{"generation_config"},
    KnownKey{"restore_modelopt_state"},
    KnownKey{"num_microbatches_with_partial_activation_checkpoints", Verdict::noted, "",
             "every micro-batch is modelled alike"},
};

constexpr std::array ddp_keys{
    KnownKey{"reduce_scatter_with_fp32_accumulation", Verdict::noted, "",
             "the reduction is modelled as a reduce-scatter"},
    KnownKey{"fp8_param_gather", Verdict::noted, "", "weights are modelled in 16 bits"},
    KnownKey{"use_custom_fsdp", Verdict::refused, "", "write use_megatron_fsdp"},
    KnownKey{"nccl_ub", Verdict::noted, "", "user buffers of NCCL are not modelled"},
    KnownKey{"outer_dp_sharding_strategy", Verdict::noted, "no_shard",
             "hybrid sharding is modelled with whole copies per group"},
    KnownKey{"*"},
};

constexpr std::array overlap_keys{
    KnownKey{"tp_comm_overlap_cfg", Verdict::noted, "",
             "user buffers are modelled with Transformer Engine's default methods"},
    KnownKey{"overlap_param_gather_with_optimizer_step", Verdict::noted, "",
             "parameters are modelled as gathered in the forward pass"},
    KnownKey{"defer_embedding_wgrad_compute", Verdict::noted, "",
             "the head's weight gradient is modelled where it arises"},
    KnownKey{"*"},
};

constexpr std::array train_keys{
    KnownKey{"rampup_batch_size", Verdict::noted, "", "the final batch is forecast"},
    KnownKey{"*"},
};

constexpr std::array precision_keys{
    KnownKey{"fp4", Verdict::refused, "", "fp4 products are not modelled"},
    KnownKey{"fp8_param", Verdict::noted, "", "weights are modelled in 16 bits"},
    KnownKey{"fp8_param_gather", Verdict::noted, "", "weights are modelled in 16 bits"},
    KnownKey{"first_last_layers_bf16", Verdict::noted, "", "all layers are modelled alike"},
    KnownKey{"*"},
};

constexpr std::array optimizer_keys{
    KnownKey{"optimizer", Verdict::noted, "adam", "the step is forecast with Adam"},
    KnownKey{"optimizer_cpu_offload", Verdict::refused, "",
             "offloading to the host is not modelled"},
    KnownKey{"use_precision_aware_optimizer", Verdict::noted, "",
             "the optimizer's states are modelled in fp32 (12 bytes per parameter)"},
    KnownKey{"*"},
};

// Sections whose keys are not settings have no effect on a step.
std::span<const KnownKey> keys_of(std::string_view section) {
  if (section == "model") return model_keys;
  if (section == "ddp") return ddp_keys;
  if (section == "comm_overlap") return overlap_keys;
  if (section == "train") return train_keys;
  if (section == "mixed_precision") return precision_keys;
  if (section == "optimizer") return optimizer_keys;
  return anything;
}

constexpr std::array sections{"model",     "train",     "ddp",        "comm_overlap",
                              "optimizer", "dist",      "dataset",    "mixed_precision",
                              "scheduler", "logger",    "checkpoint", "rng",
                              "profiling", "tokenizer", "validation", "env_vars"};

std::pair<std::string, std::string> split(std::string_view name) {
  const std::size_t dot = name.find('.');
  return {std::string{name.substr(0, dot)}, std::string{name.substr(dot + 1)}};
}

// ---- Out.

class Sections {
 public:
  template <class T>
  void operator()(const Spelling& name, const Setting<T>& setting) {
    if (!setting) return;
    for (const char* place : name.bridge)
      if (place && std::string_view{place} != "dataset.seq_length") add(place, text_of(*setting));
  }
  void add(std::string_view place, const std::string& value) {
    const auto [section, key] = split(place);
    lines_[section] += fmt::format("  {}: {}\n", key, value);
  }
  std::string text() const {
    std::string text;
    for (const char* section : sections)
      if (const auto found = lines_.find(section); found != lines_.end())
        text += fmt::format("{}:\n{}", section, found->second);
    return text;
  }

 private:
  static std::string text_of(bool value) { return value ? "true" : "false"; }
  static std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
  static std::string text_of(double value) { return fmt::format("{}", value); }
  static std::string text_of(const std::string& value) { return fmt::format("\"{}\"", value); }

  std::map<std::string, std::string> lines_;
};

struct ActivationName {
  std::string_view word;  // ours
  std::string_view function;
  bool gated;
};
constexpr std::array activations{
    ActivationName{"gelu", "torch.nn.functional.gelu", false},
    ActivationName{"geglu", "torch.nn.functional.gelu", true},
    ActivationName{"geglu", "megatron.core.fusions.fused_bias_geglu.quick_gelu", true},
    ActivationName{"swiglu", "torch.nn.functional.silu", true},
    ActivationName{"squared_relu", "megatron.core.activations.squared_relu", false},
};

void write_activation(const std::string& activation, Sections& out) {
  for (const ActivationName& name : activations) {
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

// ---- In.

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
  for (const ActivationName& name : activations)
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
  for (const char* other : {"Mamba", "T5", "VL"})
    if (name.find(other) != std::string::npos)
      model.problem("_target_", fmt::format("the architecture of {} is not modelled", name));
}

template <class T>
void read_bridge(const ObjectReader& root, const Spelling& name, Setting<T>& into) {
  for (const char* place : name.bridge) {
    if (!place) continue;
    const auto [section, key] = split(place);
    const std::optional<ValueReader> found = root.find(section);
    if (!found || !found->is_object()) continue;
    const std::optional<ValueReader> value = found->object().find(key);
    Setting<T> read;
    // Enumerations and dtypes are written as {_target_: ...}: left to the defaults.
    if (value && !value->is_object()) read_setting(found->object(), key, read);
    if (read && !into) into = read;
  }
}

// Which layers have experts, where a list says it, as Megatron-LM's flag spells lists.
void spell_expert_layers(MegatronConfig& config) {
  Text& layers = config.expert_layers;
  if (!layers.place || !layers.place->is_list()) return;
  std::ranges::replace(*layers.value, ' ', ',');
  layers.value = "[" + *layers.value + "]";
}

void judge_sections(const ObjectReader& root, Imported& result) {
  for (const char* section : sections) {
    const std::optional<ValueReader> found = root.find(section);
    if (!found || !found->is_object()) continue;
    const ObjectReader object = found->object();
    const std::string prefix = fmt::format("{}.", section);
    judge_keys(object, keys_of(section), prefix, result);
    for (const std::string& key : object.unasked_keys()) {
      const std::optional<ValueReader> value = object.find(key);
      if (!value || is_neutral(*value, ""))
        result.ignored.push_back(prefix + key);
      else
        result.notes.push_back({prefix + key, "not known here: what it changes is not forecast"});
    }
  }
  constexpr std::array top_keys{KnownKey{"_target_"},
                                KnownKey{"ft"},
                                KnownKey{"inprocess_restart"},
                                KnownKey{"nvrx_*"},
                                KnownKey{"peft"},
                                KnownKey{"name"},
                                KnownKey{"rerun_state_machine"},
                                KnownKey{"straggler"},
                                KnownKey{"tensor_inspect"}};
  judge_keys(root, top_keys, "", result);
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
  write_activation(config.activation.value_or(""), lines);
  write_experts(shape, lines);
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

Imported import_bridge(const Document& yaml, const ImportRequest& request) {
  const ObjectReader root = yaml.root_object();
  Imported read;
  MegatronConfig config;
  for_each_setting(config,
                   [&](const Spelling& name, auto& setting) { read_bridge(root, name, setting); });
  spell_expert_layers(config);
  const bool experts = request.model && request.model->experts.count > 0;
  if (const std::optional<ValueReader> model = root.find("model"); model && model->is_object()) {
    read_activation(model->object(), config);
    check_provider(model->object());
    if (experts || config.num_experts.value_or(0) > 0)
      judge_expert_keys(model->object(), KeySpelling::snake_case, "model.", read);
    Text graphs;
    read_setting(model->object(), "cuda_graph_impl", graphs);
    read.graphs = graphs.value_or("none") != "none";
  }
  if (config.fp8 && (*config.fp8 == "none" || *config.fp8 == "null")) config.fp8 = Text{};
  judge_sections(root, read);
  if (!config.max_position_embeddings) config.max_position_embeddings = config.seq_length;
  yaml.finish();
  const MegatronRules rules{.fp32_gradients_by_default = false,
                            .groups_without_switch = true,
                            .fuses_loss = true,
                            .checks_gradients = false};
  Imported result = scenario_of_megatron(config, rules, request, root);
  result.graphs = read.graphs;
  result.ignored = read.ignored;
  result.notes.insert(result.notes.begin(), read.notes.begin(), read.notes.end());
  finish_import(yaml, root, result);
  return result;
}

Imported import_nemo(const Document& yaml, const ImportRequest& request) {
  return yaml.root_object().has("trainer") ? import_nemo1(yaml, request)
                                           : import_bridge(yaml, request);
}

}  // namespace sim
