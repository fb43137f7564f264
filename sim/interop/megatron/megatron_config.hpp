// A job in Megatron's own words: the fields of Megatron-LM's TransformerConfig,
// ModelParallelConfig, DistributedDataParallelConfig and training arguments that time and memory of
// a step depend on. Megatron-LM spells them as flags, Megatron-Bridge and NeMo as YAML; what they
// mean is the same and is said once: megatron_from_scenario() and scenario_of_megatron().
//
// Names and rules: NVIDIA/Megatron-LM megatron/training/arguments.py (commit 000c4ac2, 2025-11) and
// the generated flags of 2026; NVIDIA-NeMo/Megatron-Bridge, dry-run configurations of commit
// a9497c6b.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/interop/bridge/module_recipe.hpp"
#include "sim/interop/handover.hpp"
#include "sim/interop/subject.hpp"

namespace sim {

// A value, and where a file says it.
template <class T>
struct Setting {
  std::optional<T> value{};
  std::optional<ValueReader> place{};
  std::string name{};  // of the key, also of one that the file does not have

  Setting& operator=(const T& v) {
    value = v;
    return *this;
  }
  explicit operator bool() const { return value.has_value(); }
  const T& operator*() const { return *value; }
  T value_or(const T& fallback) const { return value.value_or(fallback); }
};
using Whole = Setting<std::int64_t>;
using Real = Setting<double>;
using Flag = Setting<bool>;
using Text = Setting<std::string>;

struct MegatronConfig {
  // The model.
  Whole num_layers, hidden_size, ffn_hidden_size, num_attention_heads, num_query_groups,
      kv_channels, seq_length, max_position_embeddings, vocab_size;
  Whole mtp_layers;
  Text mtp_pattern;   // letters of a depth, as in a hybrid model's pattern
  Flag mtp_repeated;  // all depths have the parameters of the first
  Flag mtp_in_bf16;
  Text normalization, position_embedding_type;
  Flag swiglu, squared_relu, quick_geglu;  // neither: GELU
  Text activation;  // in place of these: gelu, geglu, quick_geglu, swiglu, squared_relu
  Flag group_query_attention, add_bias_linear, add_qkv_bias, qk_layernorm, share_embeddings;
  Real attention_dropout, hidden_dropout;
  Text attention_backend, loss_fusion;
  Text window, window_skip, softmax_type;
  Flag fused_loss;
  Flag operation_fuser, router_fusion;  // of Transformer Engine
  Flag fp8_gate_inputs;                 // activation_func_fp8_input_store
  Flag rotary_fusion, gate_fusion, softmax_fusion, gradient_accumulation_fusion;
  Flag deterministic;
  Text transformer_impl;
  Whole vocab_divisor;                // times the tensor ranks: what the vocabulary is padded to
  Real activation_clamp, glu_offset;  // of quick GEGLU

  // Experts and latent attention.
  Whole num_experts, experts_per_token, expert_ffn_hidden_size, shared_expert_hidden_size;
  Whole expert_groups, expert_groups_per_token;
  Text expert_layers;  // as parse_expert_layers() reads it
  Flag latent_attention;
  Whole q_lora_rank, kv_lora_rank, qk_head_dim, qk_pos_emb_head_dim, v_head_dim;
  Flag shared_expert_gate;

  // Layers that differ, and what stands in the place of attention.
  Text spec, hybrid_layer_pattern, hybrid_override_pattern;
  Real hybrid_attention_ratio, hybrid_mlp_ratio, rotary_percent;
  Flag is_hybrid_model, attention_output_gate;
  Whole mamba_state_dim, mamba_head_dim, mamba_num_groups, mamba_num_heads;
  Text attention_variant, linear_attention_layers;  // the second as parse_expert_layers() reads it
  Whole linear_conv_kernel_dim, linear_key_head_dim, linear_value_head_dim, linear_num_key_heads,
      linear_num_value_heads;
  Whole index_heads, index_dim, index_keys;

  // How experts are run.
  Whole expert_parallel, expert_tensor_parallel;
  Text token_dispatcher, flex_backend, dispatch_dtype, combine_gradient_dtype;
  Whole dispatch_sms, deepep_sms, hybridep_sms;
  Flag deepep;
  Flag grouped_products, fused_permutation, pad_to_capacity;
  Real expert_capacity;
  Flag overlap_shared_experts, overlap_experts, delay_weight_gradients;

  // Parallelism.
  Whole tensor_parallel, pipeline_parallel, context_parallel, layers_per_virtual_stage,
      virtual_stages, first_stage_layers, last_stage_layers;
  Flag account_for_embedding, account_for_loss, sequence_parallel, overlap_p2p, tp_comm_overlap,
      tp_pp_dp_mapping;
  Text pipeline_layout, cp_comm_type, hierarchical_context;

  // Data parallelism.
  Flag distributed_optimizer, overlap_grad_reduce, overlap_param_gather, megatron_fsdp, torch_fsdp2,
      torch_fsdp2_reshard, average_in_collective, check_gradients;
  Text sharding_strategy;
  Whole optimizer_instances, bucket_size, buckets;

  // The optimizer.
  Flag precision_aware_optimizer, offload_optimizer, overlap_offload;
  Real offload_fraction;
  Text optimizer;
  Whole newton_schulz_steps;
  Text muon_tensor_mode;
  Flag muon_syrk, muon_parameter_layout;
  Text main_gradients, main_parameters, first_moment, second_moment;  // their formats

  // Batch, recomputation, precision.
  Whole micro_batch_size, global_batch_size;
  Text batch_schedule;  // "0:384 200B:768": the batch from so many tokens on
  Flag recompute_activations, recompute_experts;
  Text recompute_granularity, recompute_method, recompute_modules;
  Flag offload_activations, offload_weights, offload_some_activations;
  Whole offload_layers;
  Text offload_modules;
  Whole least_offloaded;  // elements of a tensor
  Whole recompute_num_layers;
  Flag bf16, fp16, grad_reduce_in_bf16, grads_in_fp32;
  Text fp8, fp8_recipe;
  Flag fp8_param_gather;
  Flag fp8_attention, fp8_whole_attention;  // its products alone; with what goes in and out
  Text fp4, fp4_recipe;
  Flag fp4_param_gather;
  Flag bf16_ends;  // layers at either end whose products have 16 bits
  Whole bf16_at_start, bf16_at_end;
  Flag fp8_head;
  Setting<ModuleRecipe> module_recipe;
};

// How the two formats spell a field; empty: not at all. A flag without a value means
// `flag_means`. Sections of Megatron-Bridge: the later names say the same and are read where the
// first is absent; all of them are written.
struct Spelling {
  const char* flag = "";  // empty: a key of Megatron-Bridge alone
  std::array<const char*, 4> bridge{};
  bool flag_means = true;
  bool has_flag() const { return *flag != 0; }
};

template <class Config, class Visit>
void for_each_model_setting(Config& c, Visit& visit) {
  visit(Spelling{"--num-layers", {"model.num_layers"}}, c.num_layers);
  visit(Spelling{"--hidden-size", {"model.hidden_size"}}, c.hidden_size);
  visit(Spelling{"--ffn-hidden-size", {"model.ffn_hidden_size"}}, c.ffn_hidden_size);
  visit(Spelling{"--num-attention-heads", {"model.num_attention_heads"}}, c.num_attention_heads);
  visit(Spelling{"--group-query-attention", {}}, c.group_query_attention);
  visit(Spelling{"--num-query-groups", {"model.num_query_groups"}}, c.num_query_groups);
  visit(Spelling{"--kv-channels", {"model.kv_channels"}}, c.kv_channels);
  visit(Spelling{"--vocab-size", {"model.vocab_size"}}, c.vocab_size);
  visit(Spelling{"--make-vocab-size-divisible-by", {}}, c.vocab_divisor);
  visit(Spelling{"--transformer-impl", {}}, c.transformer_impl);
  visit(Spelling{"--deterministic-mode", {}}, c.deterministic);
  visit(Spelling{"--no-gradient-accumulation-fusion", {}, false}, c.gradient_accumulation_fusion);
  visit(Spelling{"--normalization", {"model.normalization"}}, c.normalization);
  visit(Spelling{"--swiglu", {}}, c.swiglu);
  visit(Spelling{"--squared-relu", {}}, c.squared_relu);
  visit(Spelling{"--quick-geglu", {}}, c.quick_geglu);
  visit(Spelling{"--disable-bias-linear", {"model.add_bias_linear"}, false}, c.add_bias_linear);
  visit(Spelling{"--add-qkv-bias", {"model.add_qkv_bias"}}, c.add_qkv_bias);
  visit(Spelling{"--qk-layernorm", {"model.qk_layernorm"}}, c.qk_layernorm);
  visit(Spelling{"--mtp-num-layers", {"model.mtp_num_layers"}}, c.mtp_layers);
  visit(Spelling{"--mtp-hybrid-override-pattern", {"model.mtp_hybrid_override_pattern"}},
        c.mtp_pattern);
  visit(Spelling{"--mtp-use-repeated-layer", {"model.mtp_use_repeated_layer"}}, c.mtp_repeated);
  visit(Spelling{"--keep-mtp-spec-in-bf16", {"model.keep_mtp_spec_in_bf16"}}, c.mtp_in_bf16);
  visit(Spelling{"--position-embedding-type", {"model.position_embedding_type"}},
        c.position_embedding_type);
  visit(Spelling{"--max-position-embeddings", {}}, c.max_position_embeddings);
  visit(Spelling{"--untie-embeddings-and-output-weights",
                 {"model.share_embeddings_and_output_weights"},
                 false},
        c.share_embeddings);
  visit(Spelling{"--attention-dropout", {"model.attention_dropout"}}, c.attention_dropout);
  visit(Spelling{"--hidden-dropout", {"model.hidden_dropout"}}, c.hidden_dropout);
  visit(Spelling{"--attention-backend", {"model.attention_backend"}}, c.attention_backend);
  visit(Spelling{"--cross-entropy-loss-fusion", {"model.cross_entropy_loss_fusion"}}, c.fused_loss);
  visit(Spelling{"--no-rope-fusion", {"model.apply_rope_fusion"}, false}, c.rotary_fusion);
  visit(Spelling{"--no-bias-swiglu-fusion", {"model.bias_activation_fusion"}, false},
        c.gate_fusion);
  visit(Spelling{"--no-masked-softmax-fusion", {"model.masked_softmax_fusion"}, false},
        c.softmax_fusion);
  visit(Spelling{"--activation-func-clamp-value", {"model.activation_func_clamp_value"}},
        c.activation_clamp);
  visit(Spelling{"--glu-linear-offset", {"model.glu_linear_offset"}}, c.glu_offset);
  visit(Spelling{"--use-transformer-engine-op-fuser", {"model.use_transformer_engine_op_fuser"}},
        c.operation_fuser);
  visit(Spelling{"", {"model.activation_func_fp8_input_store"}}, c.fp8_gate_inputs);
  visit(Spelling{"--cross-entropy-fusion-impl", {"model.cross_entropy_fusion_impl"}},
        c.loss_fusion);
  visit(Spelling{"--seq-length",
                 {"model.seq_length", "dataset.sequence_length", "dataset.seq_length"}},
        c.seq_length);
}

template <class Config, class Visit>
void for_each_expert_setting(Config& c, Visit& visit) {
  visit(Spelling{"--num-experts", {"model.num_moe_experts"}}, c.num_experts);
  visit(Spelling{"--moe-router-topk", {"model.moe_router_topk"}}, c.experts_per_token);
  visit(Spelling{"--moe-ffn-hidden-size", {"model.moe_ffn_hidden_size"}}, c.expert_ffn_hidden_size);
  visit(Spelling{"--moe-shared-expert-intermediate-size",
                 {"model.moe_shared_expert_intermediate_size"}},
        c.shared_expert_hidden_size);
  visit(Spelling{"--moe-layer-freq", {"model.moe_layer_freq"}}, c.expert_layers);
  visit(Spelling{"--moe-shared-expert-gate", {"model.moe_shared_expert_gate"}},
        c.shared_expert_gate);
  visit(Spelling{"--expert-model-parallel-size", {"model.expert_model_parallel_size"}},
        c.expert_parallel);
  visit(Spelling{"--expert-tensor-parallel-size", {"model.expert_tensor_parallel_size"}},
        c.expert_tensor_parallel);
  visit(Spelling{"--moe-token-dispatcher-type", {"model.moe_token_dispatcher_type"}},
        c.token_dispatcher);
  visit(Spelling{"--moe-flex-dispatcher-backend", {"model.moe_flex_dispatcher_backend"}},
        c.flex_backend);
  visit(Spelling{"--moe-enable-deepep", {"model.moe_enable_deepep"}}, c.deepep);
  visit(Spelling{"--moe-dispatch-fwd-dtype", {"model.moe_dispatch_fwd_dtype"}}, c.dispatch_dtype);
  visit(Spelling{"--moe-combine-bwd-dtype", {"model.moe_combine_bwd_dtype"}},
        c.combine_gradient_dtype);
  visit(Spelling{"--moe-flex-dispatcher-num-sms", {"model.moe_flex_dispatcher_num_sms"}},
        c.dispatch_sms);
  visit(Spelling{"--moe-deepep-num-sms", {"model.moe_deepep_num_sms"}}, c.deepep_sms);
  visit(Spelling{"--moe-hybridep-num-sms", {"model.moe_hybridep_num_sms"}}, c.hybridep_sms);
  visit(Spelling{"--moe-router-num-groups", {"model.moe_router_num_groups"}}, c.expert_groups);
  visit(Spelling{"--moe-router-group-topk", {"model.moe_router_group_topk"}},
        c.expert_groups_per_token);
  visit(Spelling{"--moe-grouped-gemm", {"model.moe_grouped_gemm"}}, c.grouped_products);
  visit(Spelling{"--moe-router-fusion", {"model.moe_router_fusion"}}, c.router_fusion);
  visit(Spelling{"--moe-permute-fusion", {"model.moe_permute_fusion"}}, c.fused_permutation);
  visit(Spelling{"--moe-expert-capacity-factor", {"model.moe_expert_capacity_factor"}},
        c.expert_capacity);
  visit(Spelling{"--moe-pad-expert-input-to-capacity", {"model.moe_pad_expert_input_to_capacity"}},
        c.pad_to_capacity);
  visit(Spelling{"--moe-shared-expert-overlap", {"model.moe_shared_expert_overlap"}},
        c.overlap_shared_experts);
  visit(Spelling{"--overlap-moe-expert-parallel-comm",
                 {"comm_overlap.overlap_moe_expert_parallel_comm",
                  "model.overlap_moe_expert_parallel_comm"}},
        c.overlap_experts);
  visit(Spelling{"--delay-wgrad-compute",
                 {"comm_overlap.delay_wgrad_compute", "model.delay_wgrad_compute"}},
        c.delay_weight_gradients);
}

template <class Config, class Visit>
void for_each_latent_setting(Config& c, Visit& visit) {
  visit(Spelling{"--multi-latent-attention", {"model.multi_latent_attention"}}, c.latent_attention);
  visit(Spelling{"--q-lora-rank", {"model.q_lora_rank"}}, c.q_lora_rank);
  visit(Spelling{"--kv-lora-rank", {"model.kv_lora_rank"}}, c.kv_lora_rank);
  visit(Spelling{"--qk-head-dim", {"model.qk_head_dim"}}, c.qk_head_dim);
  visit(Spelling{"--qk-pos-emb-head-dim", {"model.qk_pos_emb_head_dim"}}, c.qk_pos_emb_head_dim);
  visit(Spelling{"--v-head-dim", {"model.v_head_dim"}}, c.v_head_dim);
}

template <class Config, class Visit>
void for_each_hybrid_setting(Config& c, Visit& visit) {
  visit(Spelling{"--spec", {}}, c.spec);
  visit(Spelling{"--hybrid-layer-pattern", {"model.hybrid_layer_pattern"}}, c.hybrid_layer_pattern);
  visit(Spelling{"--hybrid-override-pattern", {"model.hybrid_override_pattern"}},
        c.hybrid_override_pattern);
  visit(Spelling{"--hybrid-attention-ratio", {"model.hybrid_attention_ratio"}},
        c.hybrid_attention_ratio);
  visit(Spelling{"--hybrid-mlp-ratio", {"model.hybrid_mlp_ratio"}}, c.hybrid_mlp_ratio);
  visit(Spelling{"--is-hybrid-model", {"model.is_hybrid_model"}}, c.is_hybrid_model);
  visit(Spelling{"--rotary-percent", {"model.rotary_percent"}}, c.rotary_percent);
  visit(Spelling{"--attention-output-gate", {"model.attention_output_gate"}},
        c.attention_output_gate);
  visit(Spelling{"--mamba-state-dim", {"model.mamba_state_dim"}}, c.mamba_state_dim);
  visit(Spelling{"--mamba-head-dim", {"model.mamba_head_dim"}}, c.mamba_head_dim);
  visit(Spelling{"--mamba-num-groups", {"model.mamba_num_groups"}}, c.mamba_num_groups);
  visit(Spelling{"--mamba-num-heads", {"model.mamba_num_heads"}}, c.mamba_num_heads);
  visit(Spelling{"--experimental-attention-variant", {"model.experimental_attention_variant"}},
        c.attention_variant);
  visit(Spelling{"--linear-attention-freq", {"model.linear_attention_freq"}},
        c.linear_attention_layers);
  visit(Spelling{"--linear-conv-kernel-dim", {"model.linear_conv_kernel_dim"}},
        c.linear_conv_kernel_dim);
  visit(Spelling{"--linear-key-head-dim", {"model.linear_key_head_dim"}}, c.linear_key_head_dim);
  visit(Spelling{"--linear-value-head-dim", {"model.linear_value_head_dim"}},
        c.linear_value_head_dim);
  visit(Spelling{"--linear-num-key-heads", {"model.linear_num_key_heads"}}, c.linear_num_key_heads);
  visit(Spelling{"--linear-num-value-heads", {"model.linear_num_value_heads"}},
        c.linear_num_value_heads);
  visit(Spelling{"--dsa-indexer-n-heads", {"model.dsa_indexer_n_heads"}}, c.index_heads);
  visit(Spelling{"--dsa-indexer-head-dim", {"model.dsa_indexer_head_dim"}}, c.index_dim);
  visit(Spelling{"--dsa-indexer-topk", {"model.dsa_indexer_topk"}}, c.index_keys);
}

template <class Config, class Visit>
void for_each_layout_setting(Config& c, Visit& visit) {
  visit(Spelling{"--micro-batch-size", {"train.micro_batch_size"}}, c.micro_batch_size);
  visit(Spelling{"--global-batch-size", {"train.global_batch_size"}}, c.global_batch_size);
  visit(Spelling{"--step-batch-size-schedule", {}}, c.batch_schedule);
  visit(Spelling{"--tensor-model-parallel-size", {"model.tensor_model_parallel_size"}},
        c.tensor_parallel);
  visit(Spelling{"--pipeline-model-parallel-size", {"model.pipeline_model_parallel_size"}},
        c.pipeline_parallel);
  visit(Spelling{"--context-parallel-size", {"model.context_parallel_size"}}, c.context_parallel);
  visit(Spelling{"--cp-comm-type", {"model.cp_comm_type"}}, c.cp_comm_type);
  visit(Spelling{"--hierarchical-context-parallel-sizes",
                 {"model.hierarchical_context_parallel_sizes"}},
        c.hierarchical_context);
  visit(Spelling{"--sequence-parallel", {"model.sequence_parallel"}}, c.sequence_parallel);
  visit(Spelling{"--num-layers-per-virtual-pipeline-stage", {}}, c.layers_per_virtual_stage);
  visit(Spelling{"--num-virtual-stages-per-pipeline-rank",
                 {"model.virtual_pipeline_model_parallel_size"}},
        c.virtual_stages);
  visit(Spelling{"--pipeline-model-parallel-layout", {"model.pipeline_model_parallel_layout"}},
        c.pipeline_layout);
  visit(
      Spelling{"--decoder-first-pipeline-num-layers", {"model.num_layers_in_first_pipeline_stage"}},
      c.first_stage_layers);
  visit(Spelling{"--decoder-last-pipeline-num-layers", {"model.num_layers_in_last_pipeline_stage"}},
        c.last_stage_layers);
  visit(Spelling{"--account-for-embedding-in-pipeline-split",
                 {"model.account_for_embedding_in_pipeline_split"}},
        c.account_for_embedding);
  visit(Spelling{"--account-for-loss-in-pipeline-split",
                 {"model.account_for_loss_in_pipeline_split"}},
        c.account_for_loss);
  visit(Spelling{"--no-overlap-p2p-communication",
                 {"comm_overlap.overlap_p2p_comm", "model.overlap_p2p_comm"},
                 false},
        c.overlap_p2p);
  visit(Spelling{"--tp-comm-overlap", {"comm_overlap.tp_comm_overlap", "model.tp_comm_overlap"}},
        c.tp_comm_overlap);
  visit(Spelling{"--use-tp-pp-dp-mapping", {"dist.use_tp_pp_dp_mapping"}}, c.tp_pp_dp_mapping);
}

template <class Config, class Visit>
void for_each_data_parallel_setting(Config& c, Visit& visit) {
  visit(Spelling{"--use-distributed-optimizer",
                 {"ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer"}},
        c.distributed_optimizer);
  visit(Spelling{"--num-distributed-optimizer-instances",
                 {"ddp.num_distributed_optimizer_instances"}},
        c.optimizer_instances);
  visit(Spelling{"--overlap-grad-reduce",
                 {"comm_overlap.overlap_grad_reduce", "ddp.overlap_grad_reduce"}},
        c.overlap_grad_reduce);
  visit(Spelling{"--overlap-param-gather",
                 {"comm_overlap.overlap_param_gather", "ddp.overlap_param_gather",
                  "optimizer.overlap_param_gather"}},
        c.overlap_param_gather);
  visit(Spelling{"--ddp-bucket-size", {"comm_overlap.bucket_size", "ddp.bucket_size"}},
        c.bucket_size);
  visit(Spelling{"--ddp-num-buckets", {"ddp.num_buckets"}}, c.buckets);
  visit(Spelling{"--ddp-average-in-collective", {"ddp.average_in_collective"}},
        c.average_in_collective);
  visit(Spelling{"--no-check-for-nan-in-loss-and-grad", {"ddp.check_for_nan_in_grad"}, false},
        c.check_gradients);
  visit(Spelling{"--use-megatron-fsdp", {"dist.use_megatron_fsdp", "ddp.use_megatron_fsdp"}},
        c.megatron_fsdp);
  visit(Spelling{"--data-parallel-sharding-strategy", {"ddp.data_parallel_sharding_strategy"}},
        c.sharding_strategy);
  visit(Spelling{"--use-torch-fsdp2", {"dist.use_torch_fsdp2"}}, c.torch_fsdp2);
  visit(Spelling{"--torch-fsdp2-no-reshard-after-forward", {}, false}, c.torch_fsdp2_reshard);
}

template <class Config, class Visit>
void for_each_optimizer_setting(Config& c, Visit& visit) {
  visit(Spelling{"--use-precision-aware-optimizer", {"optimizer.use_precision_aware_optimizer"}},
        c.precision_aware_optimizer);
  visit(Spelling{"--optimizer", {}}, c.optimizer);
  visit(Spelling{"--muon-num-ns-steps", {}}, c.newton_schulz_steps);
  visit(Spelling{"--muon-tp-mode", {}}, c.muon_tensor_mode);
  visit(Spelling{"--muon-use-syrk", {}}, c.muon_syrk);
  visit(Spelling{"--no-use-layer-wise-param-layout", {}, false}, c.muon_parameter_layout);
  // Megatron-Bridge writes formats as objects.
  visit(Spelling{"--main-grads-dtype", {}}, c.main_gradients);
  visit(Spelling{"--main-params-dtype", {}}, c.main_parameters);
  visit(Spelling{"--exp-avg-dtype", {}}, c.first_moment);
  visit(Spelling{"--exp-avg-sq-dtype", {}}, c.second_moment);
  visit(Spelling{"--optimizer-cpu-offload", {"optimizer.optimizer_cpu_offload"}},
        c.offload_optimizer);
  visit(Spelling{"--optimizer-offload-fraction", {"optimizer.optimizer_offload_fraction"}},
        c.offload_fraction);
  visit(Spelling{"--overlap-cpu-optimizer-d2h-h2d", {"optimizer.overlap_cpu_optimizer_d2h_h2d"}},
        c.overlap_offload);
}

template <class Config, class Visit>
void for_each_storage_setting(Config& c, Visit& visit) {
  visit(Spelling{"--window-size", {"model.window_size"}}, c.window);
  visit(Spelling{"--window-attn-skip-freq", {"model.window_attn_skip_freq"}}, c.window_skip);
  visit(Spelling{"--softmax-type", {"model.softmax_type"}}, c.softmax_type);
  visit(Spelling{"--recompute-activations", {}}, c.recompute_activations);
  visit(Spelling{"--moe-layer-recompute", {"model.moe_layer_recompute"}}, c.recompute_experts);
  visit(Spelling{"--recompute-granularity", {"model.recompute_granularity"}},
        c.recompute_granularity);
  visit(Spelling{"--recompute-method", {"model.recompute_method"}}, c.recompute_method);
  visit(Spelling{"--recompute-num-layers", {"model.recompute_num_layers"}}, c.recompute_num_layers);
  visit(Spelling{"--recompute-modules", {"model.recompute_modules"}}, c.recompute_modules);
  visit(Spelling{"--cpu-offloading", {"model.cpu_offloading"}}, c.offload_activations);
  visit(Spelling{"--cpu-offloading-weights", {"model.cpu_offloading_weights"}}, c.offload_weights);
  visit(Spelling{"--cpu-offloading-num-layers", {"model.cpu_offloading_num_layers"}},
        c.offload_layers);
  visit(Spelling{"--fine-grained-activation-offloading",
                 {"model.fine_grained_activation_offloading"}},
        c.offload_some_activations);
  visit(Spelling{"--offload-modules", {"model.offload_modules"}}, c.offload_modules);
  visit(Spelling{"--min-offloaded-tensor-size", {"model.min_offloaded_tensor_size"}},
        c.least_offloaded);
  visit(Spelling{"--bf16", {"mixed_precision.bf16", "model.bf16"}}, c.bf16);
  visit(Spelling{"--fp16", {"mixed_precision.fp16", "model.fp16"}}, c.fp16);
  visit(Spelling{"--fp8-format", {"mixed_precision.fp8", "model.fp8"}}, c.fp8);
  visit(Spelling{"--fp8-recipe", {"mixed_precision.fp8_recipe", "model.fp8_recipe"}}, c.fp8_recipe);
  visit(Spelling{"--fp8-param-gather",
                 {"mixed_precision.fp8_param_gather", "mixed_precision.fp8_param",
                  "ddp.fp8_param_gather", "model.fp8_param"}},
        c.fp8_param_gather);
  visit(Spelling{"--fp8-dot-product-attention",
                 {"mixed_precision.fp8_dot_product_attention", "model.fp8_dot_product_attention"}},
        c.fp8_attention);
  visit(Spelling{"--fp8-multi-head-attention",
                 {"mixed_precision.fp8_multi_head_attention", "model.fp8_multi_head_attention"}},
        c.fp8_whole_attention);
  visit(Spelling{"--fp4-format", {"mixed_precision.fp4", "model.fp4"}}, c.fp4);
  visit(Spelling{"--fp4-recipe", {"mixed_precision.fp4_recipe", "model.fp4_recipe"}}, c.fp4_recipe);
  visit(Spelling{"--fp4-param-gather",
                 {"mixed_precision.fp4_param_gather", "mixed_precision.fp4_param",
                  "ddp.fp4_param_gather", "model.fp4_param"}},
        c.fp4_param_gather);
  visit(Spelling{"--first-last-layers-bf16",
                 {"mixed_precision.first_last_layers_bf16", "model.first_last_layers_bf16"}},
        c.bf16_ends);
  visit(Spelling{"--num-layers-at-start-in-bf16",
                 {"mixed_precision.num_layers_at_start_in_bf16",
                  "model.num_layers_at_start_in_bf16"}},
        c.bf16_at_start);
  visit(Spelling{"--num-layers-at-end-in-bf16",
                 {"mixed_precision.num_layers_at_end_in_bf16", "model.num_layers_at_end_in_bf16"}},
        c.bf16_at_end);
  visit(Spelling{"--fp8-output-proj", {"model.fp8_output_proj"}}, c.fp8_head);
  visit(Spelling{"--grad-reduce-in-bf16", {}}, c.grad_reduce_in_bf16);
  visit(Spelling{"--accumulate-allreduce-grads-in-fp32",
                 {"mixed_precision.grad_reduce_in_fp32", "ddp.grad_reduce_in_fp32"}},
        c.grads_in_fp32);
}

// Calls visit(Spelling, field) for every field that both sides spell one to one.
template <class Config, class Visit>
void for_each_setting(Config& c, Visit visit) {
  for_each_model_setting(c, visit);
  for_each_latent_setting(c, visit);
  for_each_hybrid_setting(c, visit);
  for_each_expert_setting(c, visit);
  for_each_layout_setting(c, visit);
  for_each_data_parallel_setting(c, visit);
  for_each_optimizer_setting(c, visit);
  for_each_storage_setting(c, visit);
}

// Refusals are what a target cannot say: collected, then thrown together.
using Refusals = std::vector<std::string>;

MegatronConfig megatron_from_scenario(const Scenario& scenario, Refusals& refusals,
                                      std::vector<Note>& notes);

// The defaults and checks of Megatron-LM's validate_args, then ours (layout_problems). Problems go
// to the places that the settings carry, or to `root`; the caller throws them.
// --fp8-recipe, of Transformer Engine as a whole; none: another recipe, other software.
std::optional<EightBit> software_of_fp8_recipe(std::string_view recipe);
std::optional<std::string_view> fp8_recipe_of(EightBit software);

struct MegatronRules {
  // Megatron-Bridge says neither --grad-reduce-in-bf16 nor --accumulate-...-in-fp32: its
  // grad_reduce_in_fp32 decides alone.
  bool fp32_gradients_by_default = true;
  bool groups_without_switch = false;  // no --group-query-attention is needed
  bool fuses_loss = false;             // where nothing is said, as the next
  bool checks_gradients = true;
  bool gathers_need_gradients = true;  // the overlap of gathers that of reductions
  // --pipeline-model-parallel-layout beside a number of virtual stages is refused, even the same.
  bool layout_excludes_virtual_stages = true;
  // Megatron-LM's own kernels; else nothing is said of them.
  bool own_loss = true, own_optimizer = true;
};
Imported scenario_of_megatron(const MegatronConfig& config, const MegatronRules& rules,
                              const ImportRequest& request, const ObjectReader& root);

inline constexpr std::int64_t most_ranks = 1 << 20;  // of a job that is imported

// Records problems at the places that settings carry, or at the root.
class SettingProblems {
 public:
  explicit SettingProblems(const ObjectReader& root) : root_{root} {}

  void at_root(const std::string& what) const { root_.problem(what); }
  // A text without a subject ("is 1; allowed: 2") is said of the setting.
  template <class T, class... Parts>
  void problem(const Setting<T>& setting, fmt::format_string<Parts...> text,
               Parts&&... parts) const {
    const std::string what = fmt::format(text, std::forward<Parts>(parts)...);
    if (setting.place)
      setting.place->problem(what);
    else
      root_.problem(with_subject(what, [&] { return setting.name; }));
  }
  // A size that must be there and within `least` to `most`.
  std::int64_t size(const Whole& setting, std::int64_t fallback, std::int64_t most,
                    std::int64_t least = 1) const {
    const std::int64_t value = setting.value_or(fallback);
    if (value >= least && value <= most) return value;
    problem(setting, "is {}; allowed: {} to {}", value, least, most);
    return least;
  }

 private:
  const ObjectReader& root_;
};

// The parts of scenario_of_megatron().
void read_megatron_model(const MegatronConfig& config, const MegatronRules& rules,
                         const ImportRequest& request, const SettingProblems& problems,
                         TransformerShape& shape);
// REQUIRES: the parallel sizes of `layout` are read.
void read_pipeline(const MegatronConfig& config, const MegatronRules& rules,
                   const SettingProblems& problems, std::int64_t layers, Layout& layout);

// Formats by module. REQUIRES: the formats of `result` are read otherwise.
void read_module_formats(const MegatronConfig& config, const SettingProblems& problems,
                         Imported& result);

// module_recipe_of() is the part of a layout's formats by module that a recipe says; without
// matchers: nothing.
ModuleRecipe module_recipe_of(const Layout& layout, const Execution& runs);

// Settings that only models with experts or latent attention have.
// REQUIRES: the layers, heads, positions and the MLP of `shape` are read.
void read_experts_of_model(const MegatronConfig& config, const SettingProblems& problems,
                           TransformerShape& shape);
void read_latent_attention(const MegatronConfig& config, const SettingProblems& problems,
                           TransformerShape& shape);
// `sequence`: windows that are not shorter change nothing. REQUIRES: the layers of `shape` are
// read.
void read_window(const MegatronConfig& config, const SettingProblems& problems,
                 std::int64_t sequence, TransformerShape& shape);
// The pattern of a hybrid model without what else stands in it; empty: none. `layers`: as the job
// says, for ratios in the place of a pattern.
std::string hybrid_pattern_of(const MegatronConfig& config, std::int64_t layers);
// Appends a layer for each letter of `pattern`, which stands at `place`; false, and a problem
// there: a letter is unknown.
bool append_pattern(const Text& place, std::string_view pattern, const SettingProblems& problems,
                    std::vector<LayerKind>& layers);
// Layers that differ, and what stands in the place of attention. REQUIRES: all else of the model is
// read.
void read_hybrid_of_model(const MegatronConfig& config, const SettingProblems& problems,
                          TransformerShape& shape);
void write_hybrid_of_model(const TransformerShape& shape, MegatronConfig& config,
                           Refusals& refusals);
// list_unused_settings: adds to `ignored` the settings that count beside another one alone, which
// is off. REQUIRES: all else of `result` is read.
void list_unused_settings(const MegatronConfig& config, Imported& result);
// REQUIRES: the model is read.
void read_expert_layout(const MegatronConfig& config, const SettingProblems& problems,
                        Imported& result);

// read_memory_of_libraries: what depends on the device, where it is known. REQUIRES: all else of
// `result` is read.
void read_memory_of_libraries(const MegatronConfig& config, const ImportRequest& request,
                              Imported& result);

// ---- "Et|(tt|)*29,m|L" (megatron/core/transformer/pipeline_parallel_layer_layout.py).

// `mtp_layers` before the loss.
std::string pipeline_layout_text(const std::vector<int>& layers_per_chunk,
                                 std::int64_t mtp_layers = 0);
// Layers of each chunk in execution order, or what is wrong with the text.
struct PipelineLayout {
  std::vector<int> layers_per_chunk;
  std::int64_t mtp_layers = 0;  // in the last chunk
  std::string problem;
};
PipelineLayout parse_pipeline_layout(std::string_view text);

}  // namespace sim
