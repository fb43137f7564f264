#include <fmt/format.h>

#include <algorithm>

#include "sim/framework/bucket_sizes.hpp"
#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/interop/megatron/megatron_experts.hpp"
#include "sim/model/expert_bias.hpp"

namespace sim {
namespace {

class Writer {
 public:
  Writer(const Scenario& scenario, Refusals& refusals, std::vector<Note>& notes)
      : scenario_{scenario},
        shape_{*scenario.model.shape},
        layout_{scenario.layout},
        refusals_{refusals},
        notes_{notes} {}

  MegatronConfig write() {
    model_sizes();
    model_kind();
    latent_attention();
    experts();
    write_hybrid_of_model(shape_, config_, refusals_);
    parallelism();
    pipeline();
    data_parallelism();
    overlap();
    offload();
    activations();
    optimizer_kind();
    states();
    recomputation();
    precision();
    kernels();
    if (scenario_.options.graphs)
      note("simulation.graphs", "CUDA graphs are not switched on: see --cuda-graph-impl");
    if (scenario_.options.most_blocks != BlockLimits{})
      note("simulation.most_blocks",
           "NCCL's options are a file: see --nccl-communicator-config-path");
    return config_;
  }

 private:
  template <class... Parts>
  void refuse(fmt::format_string<Parts...> text, Parts&&... parts) {
    refusals_.push_back(fmt::format(text, std::forward<Parts>(parts)...));
  }
  template <class... Parts>
  void note(const char* key, fmt::format_string<Parts...> text, Parts&&... parts) {
    notes_.push_back({key, fmt::format(text, std::forward<Parts>(parts)...)});
  }

  // kernels() writes what a scenario of Megatron-LM's kernels may say otherwise, and flags can say.
  void kernels() {
    Framework left = scenario_.framework;
    const LossForm loss = left.loss;
    config_.fused_loss = loss == LossForm::fused || loss == LossForm::in_place;
    if (*config_.fused_loss) config_.loss_fusion = loss == LossForm::in_place ? "te" : "native";
    config_.average_in_collective = !left.execution.scales_gradients;
    config_.check_gradients = left.execution.checks_gradients;
    if (left.execution.operation_fuser) config_.operation_fuser = true;
    if (left.execution.keeps_gate_inputs_in_fp8) config_.fp8_gate_inputs = true;
    if (left.execution.router_fusion) {
      config_.router_fusion = true;
      note("framework", "router_fusion is read back with CUDA graphs alone");
    }
    left.execution.operation_fuser = left.execution.router_fusion = false;
    left.execution.keeps_gate_inputs_in_fp8 = left.execution.deals_parameters = false;
    const Framework own = framework_of(FrameworkName::megatron);
    left.execution.scales_gradients = left.execution.checks_gradients = false;
    fusions(own, left);
    if (!left.execution.separate_update) {
      note("framework",
           "separate_update: Megatron-LM clips gradients and copies new weights in passes of "
           "their own");
      left.execution.separate_update = true;
    }
    if (loss == LossForm::separate || loss == LossForm::in_place) left.loss = own.loss;
    left.execution.waits_for_counts = own.execution.waits_for_counts;
    if (canonical(left, scenario_) != canonical(own, scenario_))
      note("framework", "Megatron-LM runs its own fused kernels");
  }

  // Kernels that a flag takes apart. `left`: those are as `own` then.
  void fusions(const Framework& own, Framework& left) {
    if (left.rotary == RotaryForm::eager) config_.rotary_fusion = false;
    if (left.softmax == KernelForm::eager) config_.softmax_fusion = false;
    if (left.gate == KernelForm::eager && is_gated(shape_.activation)) config_.gate_fusion = false;
    if (left.rotary == RotaryForm::eager) left.rotary = own.rotary;
    left.softmax = own.softmax;
    left.gate = own.gate;
  }

  void model_sizes() {
    config_.num_layers = shape_.layers;
    config_.hidden_size = shape_.hidden;
    if (shape_.feed_forward > 0) config_.ffn_hidden_size = shape_.feed_forward;
    config_.num_attention_heads = shape_.heads;
    config_.kv_channels = shape_.head_dim;
    if (shape_.kv_heads != shape_.heads) {
      config_.group_query_attention = true;
      config_.num_query_groups = shape_.kv_heads;
    }
    config_.vocab_size = shape_.vocabulary;
    config_.seq_length = layout_.sequence_length;
    const bool table = shape_.positions == Positions::learned;
    config_.max_position_embeddings =
        std::max(table ? shape_.max_sequence : 0, layout_.sequence_length);
    config_.qk_layernorm = shape_.qk_norm;
    config_.share_embeddings = shape_.tied_head;
    if (shape_.mtp_layers > 0) config_.mtp_layers = shape_.mtp_layers;
    if (shape_.mtp_repeated) config_.mtp_repeated = true;
    if (shape_.mtp_sixteen_bits) config_.mtp_in_bf16 = true;
  }

  // newer_kind() refuses what newer families have besides: the importer of Megatron-LM's files has
  // no flags for it.
  void newer_kind() {
    const auto has = [&](bool it, std::string_view what) {
      if (it) refuse("the model {}: {}", shape_.name, what);
    };
    if (is_shorter(shape_.window, layout_.sequence_length)) {
      config_.window = fmt::format("{},0", shape_.window - 1);
      if (!shape_.full_attention.empty())
        config_.window_skip = layer_list_text(
            shape_.layers, [&](std::int64_t layer) { return !shape_.full_attention.has(layer); });
    }
    if (shape_.attention_sinks) config_.softmax_type = "learnable";
    has(shape_.qk_norm_whole, "norms over all queries, and all keys, of a token");
    has(!shape_.without_positions.empty(), "layers without rotary positions");
    has(shape_.attention_softcap || shape_.logit_softcap, "soft caps");
    has(shape_.embedding_scale || shape_.residual_scale || shape_.logit_scale,
        "scaled embeddings, branches or logits");
    has(shape_.experts.router_bias, "biases of routers");
  }

  void model_kind() {
    newer_kind();
    if (shape_.norm == NormKind::layer_no_bias)
      refuse("norm layer_no_bias: Megatron-LM has LayerNorm and RMSNorm");
    config_.normalization = shape_.norm == NormKind::rms ? "RMSNorm" : "LayerNorm";
    if (shape_.positions == Positions::alibi) refuse("positions alibi: Megatron-LM has none");
    config_.position_embedding_type = shape_.positions == Positions::rotary ? "rope"
                                      : shape_.positions == Positions::none ? "none"
                                                                            : "learned_absolute";
    if (shape_.activation == Activation::relu) refuse("activation relu: Megatron-LM has none");
    config_.activation = std::string{word(shape_.activation)};
    if (clamps_experts(shape_)) clamp();
    if (shape_.has_image() || shape_.mask != AttentionMask::causal ||
        shape_.norm_placement != NormPlacement::pre || shape_.embedding_norm ||
        shape_.token_types > 0 || shape_.head != Head::language_model || shape_.head_bias)
      refuse(
          "the model {}: pretrain_gpt.py trains causal decoders with norms before each branch "
          "and a language-model head only",
          scenario_.model.name);
    biases_and_dropout();
  }

  // Quick GEGLU with the constants of gpt-oss (config.json of openai/gpt-oss-20b, swiglu_limit;
  // GptOssExperts of transformers 4.55).
  void clamp() {
    if (!is_gated(shape_.activation))
      return refuse("activation {}: the clamp of gpt_oss' experts is of a gated activation",
                    word(shape_.activation));
    config_.activation = "quick_geglu";
    config_.activation_clamp = 7.0;
    config_.glu_offset = 1.0;
  }

  void biases_and_dropout() {
    const bool all = shape_.qkv_bias && shape_.projection_bias && shape_.mlp_bias;
    const bool only_qkv = !shape_.projection_bias && !shape_.mlp_bias;
    if (!all && !only_qkv)
      refuse("biases of some linear layers: Megatron-LM has all, none, or those of Q, K and V");
    config_.add_bias_linear = all;
    config_.add_qkv_bias = shape_.qkv_bias && !all;
    if (shape_.projection_dropout != shape_.mlp_dropout ||
        shape_.embedding_dropout != shape_.mlp_dropout)
      refuse("different dropouts behind embedding, attention and MLP: --hidden-dropout sets all");
    config_.hidden_dropout = shape_.mlp_dropout;
    config_.attention_dropout = shape_.attention_dropout;
  }

  // Its norms are a switch there; the width of heads that attention has otherwise is not used.
  void latent_attention() {
    const LatentAttention& latent = shape_.latent;
    if (!latent.exists()) return;
    config_.latent_attention = true;
    config_.qk_layernorm = true;
    config_.kv_channels = latent.value_dim;
    if (latent.query_rank > 0) config_.q_lora_rank = latent.query_rank;
    config_.kv_lora_rank = latent.key_value_rank;
    config_.qk_head_dim = latent.plain_dim;
    config_.qk_pos_emb_head_dim = latent.rotary_dim;
    config_.v_head_dim = latent.value_dim;
    if (shape_.qkv_bias || shape_.projection_bias)
      refuse("biases with latent attention: Megatron-LM's has none in queries, keys and values");
  }

  void experts() {
    const Experts& experts = shape_.experts;
    if (experts.count == 0) return;
    config_.num_experts = experts.count;
    config_.experts_per_token = experts.per_token;
    config_.expert_ffn_hidden_size = experts.feed_forward;
    if (experts.shared_feed_forward > 0)
      config_.shared_expert_hidden_size = experts.shared_feed_forward;
    config_.expert_layers = expert_layers_text(experts, shape_.layers);
    config_.expert_parallel = layout_.expert_parallel;
    config_.expert_tensor_parallel = layout_.expert_tensor();
    if (experts.groups > 0) {
      config_.expert_groups = experts.groups;
      config_.expert_groups_per_token = experts.groups_per_token;
    }
    dispatcher();
    config_.grouped_products = true;
    config_.fused_permutation = true;
    if (layout_.expert_capacity > 0) {
      config_.expert_capacity = layout_.expert_capacity;
      if (layout_.pad_to_capacity) config_.pad_to_capacity = true;
    } else if (!scenario_.framework.execution.waits_for_counts) {
      config_.expert_capacity = 1;
      config_.pad_to_capacity = true;
    }
    if (layout_.overlap_shared_experts) config_.overlap_shared_experts = true;
    if (layout_.overlap_expert_exchange) config_.overlap_experts = true;
    if (layout_.delay_weight_gradients) config_.delay_weight_gradients = true;
    if (layout_.expert_imbalance != 1)
      note("layout.expert_imbalance", "how evenly tokens come to experts is the routers' matter");
    if (layout_.has_uneven_experts())
      note(layout_.expert_load.exists() ? "layout.moe.load" : "layout.moe.load_cv",
           "how evenly tokens come to experts is the routers' matter");
  }

  void dispatcher() {
    const TokenDispatcher dispatcher = layout_.token_dispatcher;
    config_.token_dispatcher = is_fused(dispatcher) ? "flex" : std::string{word(dispatcher)};
    if (!is_fused(dispatcher)) return;
    config_.flex_backend = std::string{word(dispatcher)};
    const bool deepep = dispatcher == TokenDispatcher::deepep;
    if (layout_.eight_bit_dispatch) {
      config_.flex_backend = "ncclep";
      config_.dispatch_dtype = "mxfp8";
      config_.combine_gradient_dtype = "mxfp8";
      note("layout.moe.fp8_dispatch", "Megatron-LM has tokens in 8 bits with the backend ncclep");
    }
    if (layout_.dispatch_sms > 0)
      (deepep ? config_.deepep_sms : config_.hybridep_sms) = layout_.dispatch_sms;
  }

  void parallelism() {
    config_.tensor_parallel = layout_.tensor_parallel;
    config_.pipeline_parallel = layout_.pipeline_parallel;
    config_.context_parallel = layout_.context_parallel;
    if (layout_.context_parallel > 1) config_.cp_comm_type = exchange();
    if (layout_.context_parallel > 1 && layout_.context_heads > 0)
      config_.hierarchical_context =
          fmt::format("{} {}", layout_.context_heads, layout_.head_groups());
    config_.sequence_parallel = layout_.sequence_parallel;
    config_.micro_batch_size = layout_.micro_batch;
    config_.global_batch_size = layout_.global_batch;
    placement();
    switch (layout_.attention) {
      case AttentionKernel::flash:
        break;  // what Transformer Engine chooses by itself
      case AttentionKernel::flash_2:
        config_.attention_backend = "flash";
        break;
      case AttentionKernel::unfused:
        config_.attention_backend = "unfused";
        break;
      case AttentionKernel::flash_1:
        refuse("attention flash-1: Transformer Engine has FlashAttention 2 and later");
        break;
    }
  }

  const char* exchange() const {
    switch (layout_.context_exchange) {
      case ContextExchange::ring:
        return "p2p";
      case ContextExchange::all_gather:
        return "allgather";
      case ContextExchange::all_to_all:
        return "a2a";
      case ContextExchange::all_to_all_ring:
        return "a2a+p2p";
    }
    return "p2p";
  }

  // Megatron-LM's RankGenerator: tp-cp-ep-dp-pp, or tp-cp-ep-pp-dp with --use-tp-pp-dp-mapping.
  void placement() {
    Layout plain;
    Layout swapped;
    for (Layout* other : {&plain, &swapped}) {
      other->tensor_parallel = layout_.tensor_parallel;
      other->context_parallel = layout_.context_parallel;
      other->data_parallel = layout_.data_parallel;
      other->pipeline_parallel = layout_.pipeline_parallel;
    }
    std::swap(swapped.placement[2], swapped.placement[3]);
    if (same_order(layout_, plain)) return;
    if (same_order(layout_, swapped))
      config_.tp_pp_dp_mapping = true;
    else
      refuse(
          "placement: Megatron-LM orders ranks tp, cp, dp, pp or (--use-tp-pp-dp-mapping) "
          "tp, cp, pp, dp");
  }

  void pipeline() {
    if (layout_.schedule != Schedule::one_f_one_b && layout_.schedule != Schedule::interleaved)
      refuse("schedule {}: Megatron-LM runs 1F1B and interleaved 1F1B", word(layout_.schedule));
    if (layout_.schedule == Schedule::interleaved && layout_.virtual_stages == 1)
      note("layout.schedule", "interleaved with one chunk per stage is 1F1B in Megatron-LM");
    const auto& chunks = layout_.layers_per_chunk;
    const bool even =
        chunks.empty() || std::ranges::adjacent_find(chunks, std::not_equal_to{}) == chunks.end();
    if (!even)
      config_.pipeline_layout = pipeline_layout_text(chunks, shape_.mtp_layers);
    else if (layout_.virtual_stages > 1)
      config_.virtual_stages = layout_.virtual_stages;
  }

  // ZeRO-1 is the distributed optimizer; ZeRO-2 and 3 are Megatron-FSDP's strategies optim_grads
  // and optim_grads_params.
  void data_parallelism() {
    const int stage = layout_.zero_stage;
    if (stage > 0) config_.distributed_optimizer = true;
    if (stage > 1) {
      config_.megatron_fsdp = true;
      config_.sharding_strategy = stage == 2 ? "optim_grads" : "optim_grads_params";
    }
    if (stage > 0 && layout_.shard_ranks() < layout_.replicas())
      config_.optimizer_instances = layout_.replicas() / layout_.shard_ranks();
    if (stage == 3) {
      if (!layout_.reshard_after_forward)
        note("layout.reshard_after_forward", "Megatron-FSDP always frees gathered weights");
      if (layout_.prefetch_layers != 1)
        note("layout.prefetch_layers",
             "Megatron-FSDP's prefetch is --suggested-communication-unit-size elements");
      return;
    }
    buckets();
  }

  // Buckets of parameters, all of one size (DistributedDataParallelConfig.bucket_size).
  void buckets() {
    if (layout_.buckets > 0) {
      if (layout_.overlap_gradients)
        config_.buckets = layout_.buckets;
      else
        note("layout.buckets", "without --overlap-grad-reduce all gradients are one bucket");
      return;
    }
    const BucketSizes sizes = bucket_sizes(layout_, scenario_.framework.execution);
    if (sizes == usual_bucket_sizes(layout_, BucketRule::megatron)) return;
    if (!layout_.overlap_gradients) {
      note("layout.bucket", "without --overlap-grad-reduce all gradients are one bucket");
      note("layout.first_bucket", "as bucket");
      return;
    }
    const int bytes = bytes_of(layout_.gradient_dtype);
    config_.bucket_size = std::max<std::int64_t>(1, sizes.others.count() / bytes);
    if (sizes.others.count() % bytes != 0) note("layout.bucket", "rounded to whole gradients");
    if (sizes.first != sizes.others)
      note("layout.first_bucket", "Megatron-LM's buckets are all of one size");
  }

  void offload() {
    if (!layout_.offloads()) return;
    if (layout_.offload_optimizer == OffloadTarget::nvme)
      refuse("offload.optimizer nvme: Megatron-LM offloads to the host's memory");
    if (layout_.zero_stage == 0)
      refuse("offload.optimizer with zero_stage 0: Megatron-LM needs the distributed optimizer");
    config_.precision_aware_optimizer = config_.offload_optimizer = true;
    config_.offload_fraction = layout_.offload_fraction;
    if (layout_.offload_overlap) config_.overlap_offload = true;
  }

  void activations() {
    if (!layout_.offloads_activations()) return;
    if (!layout_.offload_modules.empty()) {
      if (layout_.offload_layers > 0)
        refuse("offload.layers {} with offload.modules: Megatron-LM offloads them of all layers",
               layout_.offload_layers);
      std::string modules;
      for (const OffloadModule module : layout_.offload_modules)
        modules += fmt::format("{}{}", modules.empty() ? "" : " ", word(module));
      config_.offload_some_activations = true;
      config_.offload_modules = modules;
      if (layout_.offload_least > 0) config_.least_offloaded = layout_.offload_least;
      return;
    }
    if (layout_.pipeline_parallel > 1 || layout_.recompute != Recompute::none)
      refuse(
          "offload.activations of whole layers with a pipeline or recomputation: Megatron-LM has "
          "it without; offload.modules goes with both");
    config_.offload_activations = true;
    const auto layers = static_cast<std::int64_t>(scenario_.model.layers.size());
    config_.offload_layers = layout_.offload_layers > 0 ? layout_.offload_layers : layers - 1;
  }

  // Whether matrices are sharded follows from the distributed optimizer.
  void optimizer_kind() {
    if (layout_.optimizer == OptimizerKind::muon) config_.optimizer = "muon";
    if (scenario_.framework.execution.deals_parameters) config_.muon_parameter_layout = false;
  }

  // Without the flag, and with an optimizer on the host, states are fp32.
  void states() {
    const DType first = layout_.moment_dtype, second = layout_.dtype_of_moment(1);
    if (first == DType::fp32 && second == DType::fp32 &&
        layout_.master_format == MasterFormat::fp32)
      return;
    if (layout_.zero_stage == 0 || layout_.offloads())
      return refuse(
          "moment_dtype {}, second_moment_dtype {}, master_format {}: Megatron-LM has them in "
          "its distributed optimizer on the device alone",
          word(first), word(second), word(layout_.master_format));
    const bool bf16 = layout_.activation_dtype == DType::bf16 &&
                      (layout_.compute_dtype != DType::fp8 ||
                       delays_scaling(scenario_.framework.execution.eight_bit));
    const bool remainders = bf16 && !layout_.eight_bit_parameters;
    const MasterFormat fp32 = remainders ? MasterFormat::remainders : MasterFormat::fp32;
    if (layout_.master_format != fp32 && layout_.master_format != MasterFormat::fp16)
      return refuse("master_format {}: Megatron-LM keeps {} beside such moments",
                    word(layout_.master_format), word(fp32));
    config_.precision_aware_optimizer = true;
    config_.first_moment = std::string{word(first)};
    config_.second_moment = std::string{word(second)};
    if (layout_.master_format == MasterFormat::fp16) config_.main_parameters = "fp16";
  }

  void overlap() {
    const bool sharded = layout_.zero_stage > 0;
    config_.overlap_grad_reduce = layout_.overlap_gradients;
    if (sharded) config_.overlap_param_gather = layout_.overlap_parameters;
    if (sharded && layout_.overlap_parameters && !layout_.overlap_gradients) {
      config_.overlap_param_gather = false;
      note("layout.overlap.parameters", "--overlap-param-gather needs --overlap-grad-reduce");
    }
    if (layout_.cuts_products()) config_.tp_comm_overlap = true;
    const bool interleaved = layout_.virtual_stages > 1;
    if (interleaved && !layout_.overlap_pipeline) {
      config_.overlap_p2p = false;
      if (layout_.pipeline_parallel == 2)
        refuse(
            "overlap pipeline false: Megatron-LM's interleaved schedule needs "
            "--pipeline-model-parallel-size 3 or more without overlap of messages");
    }
    if (!interleaved && layout_.pipeline_parallel > 1 && layout_.overlap_pipeline)
      note("layout.overlap.pipeline", "1F1B waits for its messages in Megatron-LM");
    if (layout_.tensor_parallel > 1 && !layout_.overlap_tensor_wgrad)
      note("layout.overlap.tensor_wgrad",
           "Megatron-LM always reduces beside the weight gradient's product");
  }

  void recomputation() {
    if (layout_.recompute == Recompute::none) return;
    config_.recompute_granularity = std::string{word(layout_.recompute)};
    if (!layout_.recompute_modules.empty()) {
      std::string modules;
      for (const RecomputeModule module : layout_.recompute_modules)
        modules += fmt::format("{}{}", modules.empty() ? "" : " ", word(module));
      config_.recompute_modules = modules;
    }
    if (layout_.recompute != Recompute::full) return;
    const bool some = layout_.recompute_layers > 0;
    config_.recompute_method = some ? "block" : "uniform";
    config_.recompute_num_layers = some ? layout_.recompute_layers : 1;
    if (layout_.recompute_every > 1)
      refuse(
          "recompute_every {}: Megatron-LM recomputes all layers or the first N of a stage "
          "(--recompute-method block)",
          layout_.recompute_every);
  }

  void precision() {
    const DType compute = layout_.compute_dtype;
    const DType activation = layout_.activation_dtype;
    const bool fp8 = compute == DType::fp8, fp4 = compute == DType::nvfp4;
    if (activation != compute && !((fp8 || fp4) && activation == DType::bf16))
      refuse(
          "compute_dtype {} with activation_dtype {}: Megatron-LM trains in fp32, bf16, fp16, "
          "or fp8 products beside bf16",
          word(compute), word(activation));
    config_.bf16 = activation == DType::bf16;
    config_.fp16 = activation == DType::fp16;
    if (fp8) fp8_recipe();
    if (fp8 && layout_.eight_bit_parameters) config_.fp8_param_gather = true;
    const EightBitAttention attention = scenario_.framework.execution.eight_bit_attention;
    if (attention == EightBitAttention::dot_product) config_.fp8_attention = true;
    if (attention == EightBitAttention::multi_head) config_.fp8_whole_attention = true;
    if (fp4) config_.fp4 = "e2m1";
    if (fp4 && layout_.eight_bit_parameters) config_.fp4_param_gather = true;
    if (layout_.first_bf16_layers > 0 || layout_.last_bf16_layers > 0) {
      config_.bf16_ends = true;
      config_.bf16_at_start = layout_.first_bf16_layers;
      config_.bf16_at_end = layout_.last_bf16_layers;
    }
    const auto& eight_bits = layout_.fp8_modules;
    if (std::ranges::find(eight_bits, LinearModule::head) != eight_bits.end())
      config_.fp8_head = true;
    const ModuleRecipe recipe = module_recipe_of(layout_, scenario_.framework.execution);
    if (!recipe.matchers.empty()) config_.module_recipe = recipe;
    if (activation == DType::fp32 && layout_.master_weights)
      note("layout.master_weights", "fp32 weights have no further copy in Megatron-LM");
    gradients(activation);
  }

  // Delayed scaling is the default.
  void fp8_recipe() {
    const EightBit software = scenario_.framework.execution.eight_bit;
    config_.fp8 = software == EightBit::transformer_engine_mxfp8 ? "e4m3" : "hybrid";
    if (software == EightBit::transformer_engine) return;
    const std::optional<std::string_view> recipe = fp8_recipe_of(software);
    if (!recipe) return note("framework", "8-bit products are written with delayed scaling");
    config_.fp8_recipe = std::string{*recipe};
  }

  // One format for the gradients' buffer, in which they are summed and reduced: fp32
  // (--accumulate-allreduce-grads-in-fp32, the default beside bf16), or the weights'.
  void gradients(DType weights) {
    const DType stored = layout_.gradient_dtype;
    if (stored != DType::fp32 && stored != weights) {
      refuse(
          "gradient_dtype {} beside weights in {}: Megatron-LM keeps gradients in fp32 or in "
          "the weights' format",
          word(stored), word(weights));
      return;
    }
    if (stored != layout_.reduce_dtype)
      note("layout.reduce_dtype", "Megatron-LM reduces gradients in the format it keeps them: {}",
           word(stored));
    if (weights == DType::bf16 && stored == DType::bf16) config_.grad_reduce_in_bf16 = true;
    if (weights != DType::fp32) config_.grads_in_fp32 = stored == DType::fp32;
  }

  const Scenario& scenario_;
  const TransformerShape& shape_;
  const Layout& layout_;
  Refusals& refusals_;
  std::vector<Note>& notes_;
  MegatronConfig config_;
};

}  // namespace

MegatronConfig megatron_from_scenario(const Scenario& scenario, Refusals& refusals,
                                      std::vector<Note>& notes) {
  if (!scenario.model.shape) {
    refusals.push_back(
        fmt::format("the model {}: a list of layers is no transformer", scenario.model.name));
    return {};
  }
  return Writer{scenario, refusals, notes}.write();
}

}  // namespace sim
