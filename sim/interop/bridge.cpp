// Megatron-Bridge's YAML: an override of a recipe's ConfigContainer out; in, such a file or a whole
// container as to_yaml() writes it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "sim/config/data_files.hpp"
#include "sim/interop/bridge_recipe.hpp"
#include "sim/interop/formats.hpp"
#include "sim/interop/hub_models.hpp"
#include "sim/interop/megatron_experts.hpp"
#include "sim/interop/megatron_flag_table.hpp"
#include "sim/interop/nemo.hpp"
#include "sim/interop/settings.hpp"
#include "sim/model/model.hpp"

namespace sim {
namespace {

// Fields of `model` that no setting carries (GPTModelProvider, which is Megatron's
// TransformerConfig). What is neither here nor a setting is told in a note.
constexpr auto refused = Verdict::refused;
constexpr auto noted = Verdict::noted;
constexpr std::string_view buffers_of_te =
    "user buffers are modelled with Transformer Engine's default methods";

// Fields of `model` that no setting carries (GPTModelProvider, which is Megatron's
// TransformerConfig) and that change time or memory. What is neither here, nor harmless, nor a
// setting is told in a note.
constexpr std::array model_keys{
    KnownKey{"heterogeneous_block_specs", refused, "",
             "layers of different kinds are not modelled"},
    KnownKey{"enable_mhc_connections", refused, "", "not modelled"},
    KnownKey{"fp8_dot_product_attention", refused, "", "attention in 8 bits is not modelled"},
    KnownKey{"fp8_multi_head_attention", refused, "", "attention in 8 bits is not modelled"},
    KnownKey{"fp8_output_proj", refused, "", "the head is modelled in 16 bits"},
    KnownKey{"fp8_wgrad", refused, "true",
             "weight gradients in 16 bits beside 8-bit products are not modelled"},
    KnownKey{"use_kitchen", refused, "", "formats by module are not modelled"},
    KnownKey{"quant_recipe", refused, "", "formats by module are not modelled"},
    KnownKey{"activation_func_fp8_input_store", refused, "",
             "activations are modelled as kept in 16 bits"},
    KnownKey{"fp32_residual_connection", noted, "",
             "residual connections are modelled in the activations' format"},
    KnownKey{"apply_residual_connection_post_layernorm", noted, "",
             "the residual connection is modelled before the norm"},
    KnownKey{"apply_rope_fusion", noted, "true", "modelled as fused: set framework.rotary: eager"},
    KnownKey{"bias_activation_fusion", noted, "true",
             "modelled as fused: set framework.gate: eager"},
    KnownKey{"bias_dropout_fusion", noted, "true", "modelled as fused"},
    KnownKey{"masked_softmax_fusion"},
    KnownKey{"gradient_accumulation_fusion", noted, "true",
             "gradients are modelled as accumulated by the product"},
    KnownKey{"fused_single_qkv_rope", noted, "", "the rotation is modelled as a kernel of its own"},
    KnownKey{"use_transformer_engine_op_fuser", noted, "",
             "kernels are modelled as without its fusions"},
    KnownKey{"distribute_saved_activations", noted, "",
             "kept activations are modelled as whole on every tensor-parallel rank"},
    KnownKey{"hierarchical_context_parallel_sizes", noted, "",
             "context parallelism is modelled in one level"},
    KnownKey{"hybrid_context_parallel", refused, "",
             "sequences on different numbers of ranks are not modelled"},
    KnownKey{"tp_comm_overlap_cfg", noted, "", buffers_of_te},
    KnownKey{"tp_comm_overlap_rs_dgrad", noted, "", buffers_of_te},
    KnownKey{"tp_comm_bulk_dgrad", noted, "true", buffers_of_te},
    KnownKey{"tp_comm_bulk_wgrad", noted, "true", buffers_of_te},
    KnownKey{"tp_comm_overlap_ag", noted, "true", buffers_of_te},
    KnownKey{"tp_comm_overlap_rs", noted, "true", buffers_of_te},
    KnownKey{"tp_comm_split_ag", noted, "true", buffers_of_te},
    KnownKey{"tp_comm_split_rs", noted, "true", buffers_of_te},
    KnownKey{"tp_comm_atomic_ag", noted, "", buffers_of_te},
    KnownKey{"tp_comm_atomic_rs", noted, "", buffers_of_te},
    KnownKey{"overlap_p2p_comm_warmup_flush", noted, "",
             "warm-up and flush are modelled as without it"},
    KnownKey{"microbatch_group_size_per_vp_stage", noted, "",
             "groups are modelled as large as the pipeline"},
    KnownKey{"defer_embedding_wgrad_compute", noted, "",
             "the head's weight gradient is modelled where it arises"},
    KnownKey{"make_vocab_size_divisible_by", noted, "128",
             "the vocabulary is modelled as padded to tensor parallel x 128"},
    KnownKey{"qk_clip", noted, "", "its pass is not modelled"},
    KnownKey{"qk_l2_norm", noted, "", "not modelled"},
    KnownKey{"no_rope_freq", noted, "", "all layers are modelled with rotary positions"},
    KnownKey{"memory_efficient_layer_norm", noted, "", "the norm is modelled as keeping its input"},
    KnownKey{"deterministic_mode", noted, "", "kernels are modelled at full speed"},
    KnownKey{"batch_invariant_mode", noted, "", "kernels are modelled at full speed"},
    KnownKey{"transformer_impl", noted, "transformer_engine",
             "kernels are modelled as Transformer Engine's"},
    KnownKey{"variable_seq_lengths", noted, "",
             "sequences are modelled as filled: give their lengths, layout.packing.lengths"},
    KnownKey{"num_microbatches_with_partial_activation_checkpoints", noted, "",
             "every micro-batch is modelled alike"},
    // Of layers and modes that are refused above, or of generation.
    KnownKey{"mamba_*"},
    KnownKey{"dsa_*"},
    KnownKey{"inference_*"},
};

constexpr std::array<std::string_view, 87> harmless_model_keys{
    "_target_",
    "mtp_loss_scaling_factor",
    "mtp_use_repeated_layer",
    "cpu_offloading_activations",
    "cpu_offloading_double_buffering",
    "fp4_quantizer_factory",
    "fp8_margin",
    "fp8_interval",
    "fp8_amax_history_len",
    "fp8_amax_compute_algo",
    "fp8_quantizer_factory",
    "tp_only_amax_red",
    "apply_query_key_layer_scaling",
    "apply_wd_to_qk_layernorm",
    "max_position_embeddings",
    "activation_func_clamp_value",
    "glu_linear_offset",
    "attention_softmax_in_fp32",
    "batch_p2p_comm",
    "batch_p2p_sync",
    "barrier_with_L1_time",
    "autocast_dtype",
    "enable_autocast",
    "params_dtype",
    "pipeline_dtype",
    "layernorm_epsilon",
    "layernorm_zero_centered_gamma",
    "persist_layer_norm",
    "qk_clip_alpha",
    "qk_clip_threshold",
    "rotary_base",
    "rotary_interleaved",
    "rotary_scaling_factor",
    "rotary_base_local",
    "rope_scaling",
    "rope_scaling_factor",
    "rope_type",
    "mrope_section",
    "seq_len_interpolation_factor",
    "original_max_position_embeddings",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "use_mup",
    "softmax_scale",
    "init_method",
    "init_method_std",
    "init_model_with_meta_device",
    "embedding_init_method",
    "embedding_init_method_std",
    "output_layer_init_method",
    "perform_initialization",
    "use_cpu_initialization",
    "cuda_graph_warmup_steps",
    "cuda_graph_use_single_mempool",
    "cuda_graph_retain_backward_graph",
    "use_te_rng_tracker",
    "transformer_layer_spec",
    "hf_model_id",
    "should_pad_vocab",
    "parallel_output",
    "scatter_embedding_sequence_parallel",
    "deallocate_pipeline_outputs",
    "calculate_per_token_loss",
    "fp16_lm_cross_entropy",
    "config_logger_dir",
    "timers",
    "test_mode",
    "generation_config",
    "restore_modelopt_state",
    "cache_mla_latents",
    "finalize_model_grads_func",
    "grad_scale_func",
    "grad_sync_func",
    "no_sync_func",
    "param_sync_func",
    "wgrad_deferral_limit",
    "clone_scatter_output_in_embedding",
    "async_tensor_model_parallel_allreduce",
    "disable_parameter_transpose_cache",
    "tp_comm_bootstrap_backend",
    "tp_comm_overlap_disable_qkv",
    "tp_comm_overlap_disable_fc1",
    "flash_decode",
    "use_inference_optimized_layers",
    "gradient_reduce_div_fusion"};

constexpr std::array ddp_keys{
    KnownKey{"reduce_scatter_with_fp32_accumulation", noted, "",
             "the reduction is modelled as a reduce-scatter"},
    KnownKey{"use_custom_fsdp", refused, "", "write use_megatron_fsdp"},
    KnownKey{"nccl_ub", noted, "", "user buffers of NCCL are not modelled"},
    KnownKey{"fsdp_double_buffer", noted, "", "set layout.prefetch_layers instead"},
    KnownKey{"suggested_communication_unit_size", noted, "",
             "one layer is gathered ahead: see layout.prefetch_layers"},
    KnownKey{"num_buckets", refused, "", "give bucket_size instead"},
    KnownKey{"param_name_patterns_for_fp32_local_accumulation", noted, "[]",
             "all gradients are modelled in one format"},
    KnownKey{"outer_dp_sharding_strategy", noted, "no_shard",
             "hybrid sharding is modelled with whole copies per group"},
    KnownKey{"reuse_grad_buf_for_mxfp8_param_ag", noted, "", "the buffers are modelled apart"},
};
constexpr std::array<std::string_view, 14> harmless_ddp_keys{
    "_target_",
    "check_for_large_grads",
    "pad_buckets_for_high_nccl_busbw",
    "align_param_gather",
    "align_grad_reduce",
    "gradient_reduce_div_fusion",
    "preserve_fp32_weights",
    "keep_fp8_transpose_cache",
    "keep_fp8_transpose_cache_when_using_custom_fsdp",
    "disable_symmetric_registration",
    "fsdp_manual_registration",
    "delay_wgrad_compute",
    "db_use_persist_buf_on_alloc_fail",
    "finalize_model_grads_func"};

constexpr std::array overlap_keys{
    KnownKey{"tp_comm_overlap_cfg", noted, "", buffers_of_te},
    KnownKey{"overlap_param_gather_with_optimizer_step", noted, "",
             "parameters are modelled as gathered in the forward pass"},
    KnownKey{"defer_embedding_wgrad_compute", noted, "",
             "the head's weight gradient is modelled where it arises"},
    KnownKey{"batch_p2p_comm", noted, "", "messages are modelled as sent one by one"},
};
constexpr std::array<std::string_view, 5> harmless_overlap_keys{
    "_target_", "align_param_gather", "wgrad_deferral_limit", "tp_comm_bootstrap_backend",
    "data_parallel_size"};

constexpr std::array train_keys{
    KnownKey{"rampup_batch_size", noted, "", "the final batch is forecast"},
};
constexpr std::array<std::string_view, 26> harmless_train_keys{
    "_target_",
    "train_iters",
    "train_samples",
    "eval_iters",
    "eval_interval",
    "skip_train",
    "exit_signal",
    "exit_signal_handler",
    "exit_signal_handler_for_dataloader",
    "exit_duration_in_mins",
    "exit_interval",
    "manual_gc",
    "manual_gc_interval",
    "manual_gc_eval",
    "empty_unused_memory_level",
    "iterations_to_skip",
    "train_sync_interval",
    "check_weight_hash_across_dp_replicas_interval",
    "check_weight_hash_interval",
    "decrease_batch_size_if_needed",
    "check_optimizer_step_success",
    "skip_sync_grad_norm_across_mp",
    "exit_on_missing_checkpoint",
    "full_validation",
    "multiple_validation_sets",
    "callbacks"};

constexpr std::array precision_keys{
    KnownKey{"fp8_wgrad", refused, "true",
             "weight gradients in 16 bits beside 8-bit products are not modelled"},
    KnownKey{"fp8_dot_product_attention", refused, "", "attention in 8 bits is not modelled"},
    KnownKey{"fp8_multi_head_attention", refused, "", "attention in 8 bits is not modelled"},
    KnownKey{"reuse_grad_buf_for_mxfp8_param_ag", noted, "", "the buffers are modelled apart"},
};
constexpr std::array<std::string_view, 17> harmless_precision_keys{"_target_",
                                                                   "params_dtype",
                                                                   "pipeline_dtype",
                                                                   "autocast_dtype",
                                                                   "autocast_enabled",
                                                                   "enable_autocast",
                                                                   "fp32",
                                                                   "fp8_margin",
                                                                   "fp8_interval",
                                                                   "fp8_amax_history_len",
                                                                   "fp8_amax_compute_algo",
                                                                   "fp8_quantizer_factory",
                                                                   "loss_scale",
                                                                   "initial_loss_scale",
                                                                   "min_loss_scale",
                                                                   "loss_scale_window",
                                                                   "hysteresis"};

constexpr std::array optimizer_keys{
    KnownKey{"optimizer", refused, "adam",
             "only Adam is modelled; to forecast the job with it, --set {}=adam"},
    KnownKey{"overlap_param_gather_with_optimizer_step", noted, "",
             "parameters are modelled as gathered in the forward pass"},
    KnownKey{"log_num_zeros_in_grad", noted, "", "its pass over the gradients is not modelled"},
    // Rates, decays, clipping: numbers of the update.
    KnownKey{"adam_*"},
    KnownKey{"lr*"},
    KnownKey{"min_lr"},
    KnownKey{"decoupled_*"},
    KnownKey{"muon_*"},
    KnownKey{"sgd_momentum"},
    KnownKey{"weight_decay*"},
    KnownKey{"clip_grad"},
    KnownKey{"barrier_with_L1_time"},
    KnownKey{"config_logger_dir"},
    KnownKey{"timers"},
    KnownKey{"_target_"},
    KnownKey{"fp16"},
    KnownKey{"bf16"},
    KnownKey{"params_dtype"},
    KnownKey{"fp8_recipe"},
    KnownKey{"loss_scale*"},
    KnownKey{"initial_loss_scale"},
    KnownKey{"min_loss_scale"},
    KnownKey{"hysteresis"},
    KnownKey{"use_torch_optimizer_for_cpu_offload"},
    KnownKey{"pin_cpu_grads"},
    KnownKey{"pin_cpu_params"},
    KnownKey{"store_param_remainders"},
    KnownKey{"decoupled_weight_decay"},
    KnownKey{"use_megatron_fsdp"},
    KnownKey{"reuse_grad_buf_for_mxfp8_param_ag"},
    KnownKey{"apply_wd_to_qk_layernorm"},
};
constexpr std::array dist_keys{
    KnownKey{"distributed_backend", refused, "nccl", "modelled: nccl"},
    KnownKey{"use_sharp", noted, "",
             "in-network reduction: set simulation.data_algorithm: in_switch"},
    KnownKey{"_target_"},
    KnownKey{"distributed_timeout_minutes"},
    KnownKey{"distributed_timeout_seconds_after_init"},
    KnownKey{"align_grad_reduce"},
    KnownKey{"local_rank"},
    KnownKey{"lazy_init"},
    KnownKey{"use_gloo_process_groups"},
    KnownKey{"sharp_enabled_group"},
    KnownKey{"nccl_communicator_config_path"},
    KnownKey{"high_priority_stream_groups"},
    KnownKey{"external_gpu_device_mapping"},
    KnownKey{"enable_megatron_core_experimental"},
    KnownKey{"use_decentralized_pg"},
    KnownKey{"disable_jit_fuser"},
    KnownKey{"distributed_timeout_seconds"},
};
// Of a section: what is judged, and what is harmless. The rest is told.
struct SectionKeys {
  std::span<const KnownKey> judged;
  std::span<const std::string_view> harmless{};
};
SectionKeys keys_of(std::string_view section) {
  if (section == "model") return {model_keys, harmless_model_keys};
  if (section == "ddp") return {ddp_keys, harmless_ddp_keys};
  if (section == "comm_overlap") return {overlap_keys, harmless_overlap_keys};
  if (section == "train") return {train_keys, harmless_train_keys};
  if (section == "mixed_precision") return {precision_keys, harmless_precision_keys};
  if (section == "optimizer") return {optimizer_keys};
  if (section == "dist") return {dist_keys};
  return {anything};  // no step depends on it
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
      if (place && std::string_view{place} != "dataset.seq_length")
        add(place, is_list(place) ? list_of(*setting) : text_of(*setting));
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
    // As recipes in Python name them.
    ActivationName{"squared_relu", "squared_relu", false},
    ActivationName{"swiglu", "F.silu", true},
    ActivationName{"gelu", "F.gelu", false},
    ActivationName{"geglu", "F.gelu", true},
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

template <class T>
void read_bridge(const ObjectReader& root, const Spelling& name, Setting<T>& into) {
  for (const char* place : name.bridge) {
    if (!place) continue;
    const auto [section, key] = split(place);
    const std::optional<ValueReader> found = root.find(section);
    if (!found || !found->is_object()) continue;
    const std::optional<ValueReader> value = found->object().find(key);
    Setting<T> read;
    if constexpr (std::is_same_v<T, std::string>)
      if (key == "pipeline_model_parallel_layout" && value && value->is_list()) {
        into = {layout_text(*value), value};
        continue;
      }
    // Enumerations and dtypes are written as {_target_: ...}: left to the defaults.
    if (value && !value->is_object()) read_setting(found->object(), key, read);
    if (read && !into) into = read;
  }
}

// Whether an object has that key, if only to say null. It does not become known.
bool is_written(const ObjectReader& object, std::string_view key) {
  const SourcePosition all = object.where(), value = object.where(key);
  return all.line != value.line || all.column != value.column;
}

// Whether a file speaks of a field at all, if only to say null.
bool says(const ObjectReader& root, const Spelling& name) {
  bool any = false;
  for (const char* place : name.bridge) {
    if (!place) continue;
    const auto [section, key] = split(place);
    const std::optional<ValueReader> found = root.find(section);
    if (found && found->is_object() && is_written(found->object(), key)) any = true;
  }
  return any;
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

void pass_over_section(const ObjectReader& below, const ObjectReader& above,
                       std::string_view section) {
  if (!is_written(below, section) || !is_written(above, section)) return;
  const auto mine = above.find(section);
  const auto theirs = below.find(section);
  if (!mine || !theirs || !mine->is_object() || !theirs->is_object()) return;
  const ObjectReader object = theirs->object();
  for (const std::string& key : object.unasked_keys())
    if (is_written(mine->object(), key)) static_cast<void>(object.has(key));
}

// What a layer above says is not judged again.
void pass_over(const ObjectReader& below, const ObjectReader& above) {
  for (const std::string& section : below.unasked_keys())
    pass_over_section(below, above, section);
  for (const char* section : sections)
    pass_over_section(below, above, section);
}

// cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-8B"): the hub's model.
void read_hub_model(const std::vector<ObjectReader>& layers, ImportRequest& request,
                    Imported& read) {
  Text name;
  for (const ObjectReader& layer : layers) {
    const auto model = layer.find("model");
    if (!model || !model->is_object()) continue;
    Text one;
    const ObjectReader object = model->object();
    if (object.text_or("_target_", "").starts_with("AutoBridge.")) read_setting(object, "_0", one);
    for (const char* argument : {"_0", "_1", "trust_remote_code", "revision"})
      static_cast<void>(object.has(argument));
    if (one && !name) name = one;
  }
  take_hub_model(name, request, read);
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
  constexpr std::array nothing_without{KnownKey{"moe_*"}};
  if (!has_experts) return judge_keys(model, nothing_without, "model.", result);
  judge_expert_keys(model, KeySpelling::snake_case, "model.", result);
  std::vector<std::string> names;
  for (const std::string_view flag : harmless_expert_flags()) {
    std::string name{flag.substr(2)};
    std::ranges::replace(name, '-', '_');
    names.push_back(std::move(name));
  }
  const std::vector<std::string_view> views{names.begin(), names.end()};
  ignore_keys(model, views, "model.", result);
}

struct EightBitMix {
  std::string_view name, recipe;
  bool gathers = true;
  int ends_in_bf16 = 0;  // layers at each end
};
constexpr std::array eight_bit_mixes{
    EightBitMix{"bf16_with_fp8_delayed_scaling_mixed", "delayed"},
    EightBitMix{"bf16_with_fp8_current_scaling_mixed", "tensorwise", true, 1},
    EightBitMix{"bf16_with_fp8_subchannel_scaling_mixed", "blockwise", false},
    EightBitMix{"bf16_with_mxfp8_mixed", "mxfp8"}, EightBitMix{"bf16_with_nvfp4_mixed", "nvfp4"}};

// A recipe of formats by its name (megatron/bridge/training/mixed_precision.py).
void read_precision_recipe(const ObjectReader& root, MegatronConfig& config) {
  const std::optional<ValueReader> value = root.find("mixed_precision");
  if (!value || value->is_object()) return;
  const std::string name = value->peek_text().value_or("");
  const auto eight_bits = std::find_if(eight_bit_mixes.begin(), eight_bit_mixes.end(),
                                       [&](const EightBitMix& mix) { return mix.name == name; });
  if (name == "bf16_mixed" || eight_bits != eight_bit_mixes.end()) {
    config.bf16 = true;
    if (!config.grads_in_fp32) config.grads_in_fp32 = true;
  } else if (name == "fp16_mixed") {
    config.fp16 = true;
  } else {
    value->problem(fmt::format(
        "mixed_precision is '{}'; modelled: bf16_mixed, fp16_mixed, "
        "bf16_with_fp8_delayed_scaling_mixed, and current_scaling, subchannel_scaling instead of "
        "delayed_scaling, bf16_with_mxfp8_mixed, bf16_with_nvfp4_mixed. To forecast the job so, "
        "--set "
        "mixed_precision=NAME",
        name));
  }
  if (eight_bits == eight_bit_mixes.end()) return;
  Flag& gathers = multiply_as(eight_bits->recipe, value, config);
  if (eight_bits->gathers) gathers = true;
  if (eight_bits->ends_in_bf16 == 0) return;
  config.bf16_ends = true;
  config.bf16_at_start = config.bf16_at_end = eight_bits->ends_in_bf16;
}

void judge_sections(const ObjectReader& root, Imported& result) {
  for (const char* section : sections) {
    const std::optional<ValueReader> found = root.find(section);
    if (!found || !found->is_object()) continue;
    const ObjectReader object = found->object();
    const std::string prefix = fmt::format("{}.", section);
    const SectionKeys keys = keys_of(section);
    judge_keys(object, keys.judged, prefix, result);
    ignore_keys(object, keys.harmless, prefix, result);
    note_unknown_keys(object, prefix, result);
  }
  constexpr std::array top_keys{KnownKey{"_target_"},
                                KnownKey{"ft"},
                                KnownKey{"inprocess_restart"},
                                KnownKey{"nvrx_*"},
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

namespace {

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

// The first layer that has the section decides on what it says of graphs and activations.
void read_model_section(const ObjectReader& model, bool first, bool experts, MegatronConfig& config,
                        Imported& read) {
  if (!config.activation) read_activation(model, config);
  check_provider(model);
  judge_experts(model, experts, read);
  Text graphs;
  read_setting(model, "cuda_graph_impl", graphs);
  const bool said = graphs || model.has("cuda_graph_scope") || model.has("cuda_graph_modules");
  if (!said || (!first && read.graphs)) return;
  read.graphs = graphs.value_or("none") != "none";
  read_graph_scope(model, {"cuda_graph_scope", "cuda_graph_modules"}, read);
}

// `layers`: the file, and with a recipe what it begins from; the first that speaks of a field
// decides.
Imported import_settings(const Document& yaml, const std::vector<ObjectReader>& layers,
                         const RecipeChain* chain, const ImportRequest& asked) {
  const ObjectReader& root = layers.front();
  ImportRequest request = asked;
  Imported read;
  MegatronConfig config;
  for_each_setting(config, [&](const Spelling& name, auto& setting) {
    bool open = true;
    for (const ObjectReader& layer : layers) {
      if (open) read_bridge(layer, name, setting);
      if (says(layer, name)) open = false;
    }
  });
  for (const ObjectReader& layer : layers) {
    read_format(layer, "main_grads_dtype", config.main_gradients);
    read_format(layer, "main_params_dtype", config.main_parameters);
    read_format(layer, "exp_avg_dtype", config.first_moment);
    read_format(layer, "exp_avg_sq_dtype", config.second_moment);
  }
  spell_layers(config);
  for (std::size_t i = 1; i < layers.size(); ++i)
    for (std::size_t above = 0; above < i; ++above)
      pass_over(layers[i], layers[above]);
  if (chain) read_hub_model(layers, request, read);
  Layout adapters;
  const bool experts =
      (request.model && request.model->experts.count > 0) || config.num_experts.value_or(0) > 0;
  note_packing(root, read);
  bool precise = false, adapted = false;
  for (const ObjectReader& layer : layers) {
    if (!precise) read_precision_recipe(layer, config);
    precise = precise || layer.has("mixed_precision");
    const std::optional<ValueReader> peft = layer.find("peft");
    if (!adapted) read_peft(layer, experts, adapters, read);
    if (adapted && peft && peft->is_object()) peft->object().ignore_unknown();
    adapted = adapted || peft;
  }
  if (chain) read_recipe(*chain, config, read);
  for (const ObjectReader& layer : layers)
    if (const std::optional<ValueReader> model = layer.find("model"); model && model->is_object())
      read_model_section(model->object(), &layer == &root, experts, config, read);
  for (Text* format : {&config.fp8, &config.fp4})
    if (*format && (**format == "none" || **format == "null")) *format = Text{};
  for (const ObjectReader& layer : layers) {
    judge_sections(layer, read);
    if (chain) note_unknown_keys(layer, "", read);
  }
  if (!config.max_position_embeddings) config.max_position_embeddings = config.seq_length;
  yaml.finish();
  if (chain) chain->finish();
  const MegatronRules rules{.fp32_gradients_by_default = false,
                            .groups_without_switch = true,
                            .fuses_loss = true,
                            .checks_gradients = false,
                            .layout_excludes_virtual_stages = false};
  Imported result = scenario_of_megatron(config, rules, request, root);
  result.layout.lora_rank = adapters.lora_rank;
  result.layout.lora_modules = adapters.lora_modules;
  result.layout.expert_adapters = adapters.expert_adapters;
  result.graphs = read.graphs;
  result.graph_scope = read.graph_scope;
  result.ignored = read.ignored;
  result.notes.insert(result.notes.begin(), read.notes.begin(), read.notes.end());
  if (chain) chain->finish();
  finish_import(yaml, root, result);
  return result;
}

}  // namespace

Imported import_bridge(const Document& yaml, const ImportRequest& request) {
  return import_settings(yaml, {yaml.root_object()}, nullptr, request);
}

Imported import_bridge_recipe(const Document& file, const std::string& name,
                              const ImportRequest& request, const std::string& path) {
  ImportRequest known = request;
  if (known.gpus == 0) known.gpus = gpus_of_recipe(name);
  const std::string model = known.model ? "" : model_of_recipe(name);
  if (!model.empty()) known.model = load_model(find_data_file("models", model)).shape;
  const RecipeChain chain{file, name, path};
  if (chain.layers().empty()) throw InputError{{file.name(), 0, 0}, name + " is no recipe"};
  return import_settings(file, chain.layers(), &chain, known);
}

Imported import_nemo(const Document& yaml, const ImportRequest& request) {
  return yaml.root_object().has("trainer") ? import_nemo1(yaml, request)
                                           : import_bridge(yaml, request);
}

}  // namespace sim
