// Settings that mean something beside another one alone. Where that is off no step depends on them:
// they are listed, not read.
#include "sim/interop/megatron/megatron_config.hpp"

namespace sim {
void list_unused_settings(const MegatronConfig& config, Imported& result) {
  const Layout& layout = result.layout;
  const auto list = [&](bool counts, const auto&... settings) {
    const auto one = [&](const auto& setting) {
      if (setting.place && !counts) result.ignored.push_back(setting.name);
    };
    (one(settings), ...);
  };
  const bool experts = result.shape.experts.count > 0;
  const bool flex = experts && config.token_dispatcher.value_or("") == "flex";
  const bool full = layout.recompute == Recompute::full;
  const bool muon = layout.optimizer == OptimizerKind::muon;
  list(bool{config.fp8}, config.fp8_recipe);
  list(bool{config.fp4}, config.fp4_recipe);
  list(config.bf16_ends.value_or(false), config.bf16_at_start, config.bf16_at_end);
  list(config.megatron_fsdp.value_or(false), config.sharding_strategy);
  list(layout.overlap_gradients, config.buckets, config.bucket_size);
  list(layout.context_parallel > 1, config.cp_comm_type);
  list(full, config.recompute_method, config.recompute_num_layers);
  list(layout.recompute == Recompute::selective, config.recompute_modules);
  list(layout.offload_activations != OffloadTarget::none, config.offload_layers);
  list(config.offload_some_activations.value_or(false), config.offload_modules,
       config.least_offloaded);
  list(layout.offload_optimizer != OffloadTarget::none, config.offload_fraction);
  list(experts, config.expert_layers, config.token_dispatcher, config.expert_tensor_parallel,
       config.experts_per_token, config.expert_ffn_hidden_size, config.shared_expert_hidden_size,
       config.expert_groups, config.expert_groups_per_token, config.expert_capacity);
  list(flex, config.flex_backend, config.dispatch_dtype, config.combine_gradient_dtype,
       config.dispatch_sms, config.deepep_sms, config.hybridep_sms);
  list(result.shape.latent.exists(), config.q_lora_rank, config.kv_lora_rank, config.qk_head_dim,
       config.qk_pos_emb_head_dim, config.v_head_dim);
  list(result.shape.hybrid.has(Mixer::mamba2), config.mamba_state_dim, config.mamba_head_dim,
       config.mamba_num_groups, config.mamba_num_heads);
  list(bool{config.attention_variant}, config.linear_attention_layers,
       config.linear_conv_kernel_dim, config.linear_key_head_dim, config.linear_value_head_dim,
       config.linear_num_key_heads, config.linear_num_value_heads, config.index_heads,
       config.index_dim, config.index_keys);
  list(config.is_hybrid_model.value_or(false), config.hybrid_attention_ratio,
       config.hybrid_mlp_ratio);
  list(config.group_query_attention.value_or(result.shape.kv_heads != result.shape.heads),
       config.num_query_groups);
  list(config.quick_geglu.value_or(false), config.activation_clamp, config.glu_offset);
  list(result.shape.mtp_layers > 0, config.mtp_pattern);
  list(bool{config.window}, config.window_skip);
  list(muon, config.newton_schulz_steps);
  list(muon && layout.tensor_parallel > 1, config.muon_tensor_mode);
}

}  // namespace sim
