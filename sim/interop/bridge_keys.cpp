// Keys of Megatron-Bridge that no setting has: which of them change a step.
#include "sim/interop/bridge_keys.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/interop/megatron_config.hpp"
#include "sim/interop/megatron_flag_table.hpp"

namespace sim {
namespace {

using Verdict::noted;
using Verdict::refused;
using Verdict::unmodelled;

// Fields of `model` that no setting carries (GPTModelProvider, which is Megatron's
// TransformerConfig) and that change time or memory. What is neither here, nor harmless, nor a
// setting is told in a note.
constexpr std::array bridge_model_keys{
    KnownKey{"heterogeneous_block_specs", refused, "",
             "layers of different kinds are not modelled"},
    KnownKey{"freeze_language_model", refused, "", "frozen parameters are not modelled"},
    KnownKey{"freeze_vision_*"},
    KnownKey{"enable_mhc_connections", refused, "", "not modelled"},
    KnownKey{"fp8_wgrad", refused, "true",
             "weight gradients in 16 bits beside 8-bit products are not modelled"},
    KnownKey{"use_kitchen", refused, "", "formats by module are not modelled"},
    KnownKey{"activation_func_fp8_input_store", refused, "",
             "activations are modelled as kept in 16 bits"},
    KnownKey{"fp32_residual_connection", noted, "",
             "residual connections are modelled in the activations' format"},
    KnownKey{"apply_residual_connection_post_layernorm", noted, "",
             "the residual connection is modelled before the norm"},
    KnownKey{"bias_dropout_fusion", noted, "true", "modelled as fused"},
    KnownKey{"gradient_accumulation_fusion", noted, "true",
             "gradients are modelled as accumulated by the product"},
    KnownKey{"fused_single_qkv_rope", noted, "", "the rotation is modelled as a kernel of its own"},
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
    KnownKey{"qk_clip", unmodelled, "", "its pass is not modelled"},
    KnownKey{"qk_l2_norm", unmodelled, "", "not modelled"},
    KnownKey{"no_rope_freq", unmodelled, "", "all layers are modelled with rotary positions"},
    KnownKey{"memory_efficient_layer_norm", noted, "", "the norm is modelled as keeping its input"},
    KnownKey{"deterministic_mode", unmodelled, "", "kernels are modelled at full speed"},
    KnownKey{"batch_invariant_mode", unmodelled, "", "kernels are modelled at full speed"},
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

constexpr std::array<std::string_view, 85> harmless_model_keys{
    "_target_",
    "high_priority_a2a_comm_stream",
    "mtp_loss_scaling_factor",
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
    KnownKey{"nccl_ub", unmodelled, "", "user buffers of NCCL are not modelled"},
    KnownKey{"fsdp_double_buffer"},  // of two layers, of which one is gathered ahead, as modelled
    KnownKey{"suggested_communication_unit_size", noted, "",
             "one layer is gathered ahead: see layout.prefetch_layers"},
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

constexpr std::array bridge_precision_keys{
    KnownKey{"fp8_wgrad", refused, "true",
             "weight gradients in 16 bits beside 8-bit products are not modelled"},
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

constexpr std::array bridge_optimizer_keys{
    KnownKey{"overlap_param_gather_with_optimizer_step", noted, "",
             "parameters are modelled as gathered in the forward pass"},
    KnownKey{"log_num_zeros_in_grad", unmodelled, "",
             "its pass over the gradients is not modelled"},
    // Rates, decays, clipping: numbers of the update.
    KnownKey{"adam_*"},
    KnownKey{"lr*"},
    KnownKey{"min_lr"},
    KnownKey{"decoupled_*"},
    KnownKey{"lion_*"},
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
    KnownKey{"use_sharp", noted, "", in_network_reduction},
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
  if (section == "model") return {bridge_model_keys, harmless_model_keys};
  if (section == "ddp") return {ddp_keys, harmless_ddp_keys};
  if (section == "comm_overlap") return {overlap_keys, harmless_overlap_keys};
  if (section == "train") return {train_keys, harmless_train_keys};
  if (section == "mixed_precision") return {bridge_precision_keys, harmless_precision_keys};
  if (section == "optimizer") return {bridge_optimizer_keys};
  if (section == "dist") return {dist_keys};
  return {anything};  // no step depends on it
}

}  // namespace

std::pair<std::string, std::string> split_bridge_place(std::string_view name) {
  const std::size_t dot = name.find('.');
  return {std::string{name.substr(0, dot)}, std::string{name.substr(dot + 1)}};
}

bool bridge_key_counts(std::string_view path) {
  const auto [section, rest] = split_bridge_place(path);
  const std::string key = rest.substr(0, rest.find('.'));
  if (section == "peft" || path == "tokenizer.vocab_size") return true;
  const std::string of_section = fmt::format("{}.{}", section, key);
  bool is_setting = false;
  MegatronConfig config;
  for_each_setting(config, [&](const Spelling& name, const auto&) {
    for (const char* place : name.bridge)
      is_setting = is_setting || (place != nullptr && of_section == place);
  });
  if (is_setting) return true;
  const SectionKeys keys = keys_of(section);
  if (keys.judged.data() == anything.data()) return false;
  if (section.size() == path.size()) return true;
  std::string flag = "--" + key;
  std::ranges::replace(flag, '_', '-');
  const auto harmless = harmless_expert_flags();
  if (std::ranges::find(keys.harmless, key) != keys.harmless.end() ||
      std::ranges::find(harmless, flag) != harmless.end())
    return false;
  const auto row =
      std::ranges::find_if(keys.judged, [&](const KnownKey& one) { return fits(one, key); });
  return row == keys.judged.end() || row->verdict != Verdict::ignored;
}

void judge_bridge_sections(const ObjectReader& root, Imported& result) {
  for (const char* section : bridge_sections) {
    const std::optional<ValueReader> found = root.find(section);
    if (!found) continue;
    if (!found->is_object()) {
      const bool counts = keys_of(section).judged.data() != anything.data();
      const bool named = section == std::string_view{"mixed_precision"};
      if (counts && !named && !is_neutral(*found, ""))
        found->problem(fmt::format("{} takes an object of settings", section));
      else if (!named)
        result.ignored.emplace_back(section);
      continue;
    }
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

}  // namespace sim
