#include <fmt/format.h>

#include <algorithm>

#include "sim/interop/megatron_config.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

constexpr std::int64_t most_ranks = 1 << 20;

class Reader : private SettingProblems {
 public:
  Reader(const MegatronConfig& config, const MegatronRules& rules, const ImportRequest& request,
         const ObjectReader& root)
      : SettingProblems{root}, config_{config}, rules_{rules}, request_{request}, root_{root} {}

  Imported read() {
    result_.framework = framework_of(FrameworkName::megatron);
    model();
    if (!parallelism()) return result_;
    read_expert_layout(config_, *this, result_);
    batch();
    pipeline();
    data_parallelism();
    precision();
    buckets();
    overlap();
    recomputation();
    attention();
    if (rules_.own_kernels) {
      loss();
      optimizer();
    }
    return result_;
  }

 private:
  Layout& layout() { return result_.layout; }

  template <class... Parts>
  void note(std::string key, fmt::format_string<Parts...> text, Parts&&... parts) {
    result_.notes.push_back({std::move(key), fmt::format(text, std::forward<Parts>(parts)...)});
  }
  void model() {
    if (!config_.num_layers) {
      if (request_.model)
        result_.shape = *request_.model;
      else
        root_.problem("the file does not describe the model: name it with --model");
      return;
    }
    TransformerShape& shape = result_.shape;
    shape.name = "imported";
    shape.source = "arguments of Megatron-LM";
    shape.family = "megatron";
    sizes(shape);
    kind(shape);
    read_latent_attention(config_, *this, shape);
    read_experts_of_model(config_, *this, shape);
    if (request_.model && !same_shape(*request_.model, shape))
      problem(config_.num_layers, "the file describes another model than --model: leave one away");
    if (request_.model) shape = *request_.model;
  }

  void sizes(TransformerShape& shape) {
    namespace limits = transformer_limits;
    for (const Whole* needed : {&config_.hidden_size, &config_.num_attention_heads})
      if (!*needed)
        root_.problem(fmt::format("the model has no {}", needed == &config_.hidden_size
                                                             ? "hidden size"
                                                             : "number of "
                                                               "heads"));
    shape.layers = size(config_.num_layers, 1, limits::layers);
    shape.hidden = size(config_.hidden_size, 1, limits::hidden);
    shape.heads = size(config_.num_attention_heads, 1, limits::heads);
    // --num-query-groups counts only with --group-query-attention; the YAMLs have no such switch.
    const bool grouped = config_.group_query_attention.value_or(rules_.groups_without_switch &&
                                                                bool{config_.num_query_groups});
    shape.kv_heads = grouped ? size(config_.num_query_groups, 1, limits::heads) : shape.heads;
    if (shape.heads % shape.kv_heads != 0)
      problem(config_.num_query_groups, "{} query groups do not divide {} heads", shape.kv_heads,
              shape.heads);
    if (!config_.kv_channels && shape.hidden % shape.heads != 0)
      problem(config_.num_attention_heads, "{} heads do not divide the hidden size {}", shape.heads,
              shape.hidden);
    shape.head_dim = size(config_.kv_channels,
                          std::max<std::int64_t>(1, shape.hidden / shape.heads), limits::head_dim);
    if (!config_.vocab_size && request_.model) {
      shape.vocabulary = request_.model->vocabulary;
      feed_forward(shape);
      return;
    }
    if (!config_.vocab_size)
      root_.problem(
          "the size of the vocabulary comes from the tokenizer: add it (--vocab-size N, "
          "model.vocab_size), or name the model with --model");
    shape.vocabulary = size(config_.vocab_size, 1, limits::rows);
    feed_forward(shape);
  }

  Activation activation() {
    const std::string name = config_.activation.value_or("");
    if (name == "swiglu" || config_.swiglu.value_or(false)) return Activation::swiglu;
    if (name == "squared_relu" || config_.squared_relu.value_or(false))
      return Activation::squared_relu;
    if (name == "geglu" || name == "quick_geglu" || config_.quick_geglu.value_or(false))
      return Activation::geglu;
    return Activation::gelu;
  }

  // validate_args: 4 h, or with --swiglu two thirds of it in multiples of 64. (--quick-geglu is not
  // asked for there, and gets 4 h.)
  void feed_forward(TransformerShape& shape) {
    shape.activation = activation();
    const std::int64_t gated = shape.hidden * 4 * 2 / 3 / 64 * 64;
    const std::int64_t fallback = shape.activation == Activation::swiglu ? gated : 4 * shape.hidden;
    shape.feed_forward = size(config_.ffn_hidden_size, std::max<std::int64_t>(1, fallback),
                              transformer_limits::feed_forward);
  }

  void kind(TransformerShape& shape) {
    const std::string norm = config_.normalization.value_or("LayerNorm");
    if (norm != "LayerNorm" && norm != "RMSNorm")
      problem(config_.normalization, "is '{}'; allowed: LayerNorm, RMSNorm", norm);
    shape.norm = norm == "RMSNorm" ? NormKind::rms : NormKind::layer;
    positions(shape);
    const bool all = config_.add_bias_linear.value_or(true);
    shape.qkv_bias = all || config_.add_qkv_bias.value_or(false);
    shape.projection_bias = shape.mlp_bias = all;
    shape.qk_norm = config_.qk_layernorm.value_or(false);
    shape.tied_head = config_.share_embeddings.value_or(true);
    // Megatron-LM's defaults are 0.1.
    shape.mlp_dropout = probability(config_.hidden_dropout);
    shape.projection_dropout = shape.embedding_dropout = shape.mlp_dropout;
    shape.attention_dropout = probability(config_.attention_dropout);
  }

  double probability(const Real& setting) {
    const double value = setting.value_or(0.1);
    if (value >= 0 && value <= 1) return value;
    problem(setting, "is {}; allowed: 0 to 1", value);
    return 0;
  }

  void positions(TransformerShape& shape) {
    const std::string kind = config_.position_embedding_type.value_or("learned_absolute");
    if (kind == "rope") {
      shape.positions = Positions::rotary;
    } else if (kind == "learned_absolute") {
      shape.positions = Positions::learned;
      if (!config_.max_position_embeddings)
        root_.problem("learned positions need --max-position-embeddings");
      shape.max_sequence = size(config_.max_position_embeddings, 1, transformer_limits::rows);
    } else {
      problem(config_.position_embedding_type, "is '{}'; modelled: learned_absolute, rope", kind);
    }
  }

  bool parallelism() {
    layout().tensor_parallel = static_cast<int>(size(config_.tensor_parallel, 1, most_ranks));
    layout().pipeline_parallel = static_cast<int>(size(config_.pipeline_parallel, 1, 10'000));
    layout().context_parallel = static_cast<int>(size(config_.context_parallel, 1, most_ranks));
    const std::int64_t inner = std::int64_t{layout().tensor_parallel} * layout().pipeline_parallel *
                               layout().context_parallel;
    if (request_.gpus < 1) {
      root_.problem("the number of GPUs is not in the file: give --gpus N");
      return false;
    }
    if (request_.gpus % inner != 0) {
      problem(config_.tensor_parallel,
              "tensor {} x pipeline {} x context {} parallel is {}, which does not divide {} GPUs",
              layout().tensor_parallel, layout().pipeline_parallel, layout().context_parallel,
              inner, request_.gpus);
      return false;
    }
    layout().data_parallel = static_cast<int>(request_.gpus / inner);
    sequence_parallel();
    if (config_.tp_pp_dp_mapping.value_or(false))
      std::swap(layout().placement[2], layout().placement[3]);
    const std::string exchange = config_.cp_comm_type.value_or("p2p");
    if (exchange == "allgather" || exchange == "all_gather")
      layout().context_exchange = ContextExchange::all_gather;
    else if (exchange == "a2a")
      layout().context_exchange = ContextExchange::all_to_all;
    else if (exchange != "p2p" && layout().context_parallel > 1)
      problem(config_.cp_comm_type, "is '{}'; modelled: p2p, a2a, allgather", exchange);
    return true;
  }

  void sequence_parallel() {
    layout().sequence_parallel = config_.sequence_parallel.value_or(false);
    if (layout().sequence_parallel && layout().tensor_parallel == 1) {
      layout().sequence_parallel = false;
      note("sequence-parallel", "without tensor parallelism Megatron-LM switches it off");
    }
  }

  void batch() {
    constexpr std::int64_t most = 1LL << 32;
    if (!config_.seq_length && request_.sequence_length == 0)
      root_.problem("the sequence length is missing (--seq-length)");
    if (!config_.micro_batch_size) root_.problem("the micro-batch is missing (--micro-batch-size)");
    layout().sequence_length =
        size(config_.seq_length, std::max<std::int64_t>(1, request_.sequence_length), most);
    layout().micro_batch = size(config_.micro_batch_size, 1, most);
    const std::int64_t unit = layout().micro_batch * layout().data_parallel;
    layout().global_batch = size(config_.global_batch_size, unit, most);
    if (layout().global_batch % unit != 0)
      problem(config_.global_batch_size,
              "is {}, no multiple of micro-batch {} x data parallel {} = {}", layout().global_batch,
              layout().micro_batch, layout().data_parallel, unit);
    const std::int64_t positions = config_.max_position_embeddings.value_or(0);
    if (positions > 0 && positions < layout().sequence_length)
      problem(config_.max_position_embeddings, "is {}, less than the sequence length {}", positions,
              layout().sequence_length);
  }

  void pipeline() {
    const int ways = int{bool{config_.layers_per_virtual_stage}} +
                     int{config_.virtual_stages.value_or(1) > 1 && !config_.pipeline_layout} +
                     int{bool{config_.pipeline_layout}};
    if (ways > 1)
      problem(config_.pipeline_layout.place ? Whole{{}, config_.pipeline_layout.place}
                                            : config_.virtual_stages,
              "--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank and "
              "--pipeline-model-parallel-layout exclude each other");
    if (config_.pipeline_layout)
      custom_pipeline();
    else
      counted_pipeline();
    if (layout().virtual_stages > 1) layout().schedule = Schedule::interleaved;
  }

  void custom_pipeline() {
    const PipelineLayout parsed = parse_pipeline_layout(*config_.pipeline_layout);
    if (!parsed.problem.empty()) {
      problem(config_.pipeline_layout, "the pipeline layout {}", parsed.problem);
      return;
    }
    const auto stages = static_cast<int>(parsed.layers_per_chunk.size());
    if (stages % layout().pipeline_parallel != 0) {
      problem(config_.pipeline_layout, "has {} stages, no multiple of pipeline parallel {}", stages,
              layout().pipeline_parallel);
      return;
    }
    layout().virtual_stages = stages / layout().pipeline_parallel;
    layout().layers_per_chunk = parsed.layers_per_chunk;
  }

  // Embedding and loss may count as a layer each; what is left for each stage has to come out even.
  void counted_pipeline() {
    const int stages = layout().pipeline_parallel;
    const int before = config_.account_for_embedding.value_or(false) ? 1 : 0;
    const int behind = config_.account_for_loss.value_or(false) ? 1 : 0;
    const std::int64_t layers = result_.shape.layers + before + behind;
    if (config_.first_stage_layers || config_.last_stage_layers) {
      uneven_ends(before, behind);
      return;
    }
    if (layers % stages != 0) {
      problem(config_.pipeline_parallel, "{} layers do not divide over {} stages", layers, stages);
      return;
    }
    const std::int64_t per_stage = layers / stages;
    std::int64_t repeats = config_.virtual_stages.value_or(1);
    if (config_.layers_per_virtual_stage)
      repeats = per_stage / size(config_.layers_per_virtual_stage, 1, 10'000);
    if (repeats < 1 || per_stage % repeats != 0 ||
        (config_.layers_per_virtual_stage &&
         per_stage % size(config_.layers_per_virtual_stage, 1, 10'000) != 0)) {
      problem(config_.layers_per_virtual_stage ? config_.layers_per_virtual_stage
                                               : config_.virtual_stages,
              "the {} layers of a stage do not divide into its virtual stages", per_stage);
      return;
    }
    layout().virtual_stages = static_cast<int>(repeats);
    if (before + behind == 0) return;
    layout().layers_per_chunk.assign(static_cast<std::size_t>(stages * repeats),
                                     static_cast<int>(per_stage / repeats));
    layout().layers_per_chunk.front() -= before;
    layout().layers_per_chunk.back() -= behind;
  }

  // --decoder-first-pipeline-num-layers, --decoder-last-...: the stages between share the rest;
  // each stage splits evenly into its virtual stages (transformer_block.py,
  // get_num_layers_to_build).
  void uneven_ends(int before, int behind) {
    const int stages = layout().pipeline_parallel;
    const auto repeats = static_cast<int>(size(config_.virtual_stages, 1, 10'000));
    const int ends = int{bool{config_.first_stage_layers}} + int{bool{config_.last_stage_layers}};
    const std::int64_t rest = result_.shape.layers - config_.first_stage_layers.value_or(0) -
                              config_.last_stage_layers.value_or(0);
    const Whole& named =
        config_.first_stage_layers ? config_.first_stage_layers : config_.last_stage_layers;
    if (before + behind > 0) {
      problem(named, "excludes that embedding or loss count as a layer");
      return;
    }
    if (stages <= ends || rest < 0 || rest % (stages - ends) != 0) {
      problem(named, "leaves {} layers, which do not divide over the other {} stages", rest,
              std::max(0, stages - ends));
      return;
    }
    std::vector<std::int64_t> layers(static_cast<std::size_t>(stages), rest / (stages - ends));
    if (config_.first_stage_layers) layers.front() = *config_.first_stage_layers;
    if (config_.last_stage_layers) layers.back() = *config_.last_stage_layers;
    layout().virtual_stages = repeats;
    for (int repeat = 0; repeat < repeats; ++repeat)
      for (const std::int64_t count : layers) {
        if (count % repeats != 0) {
          problem(named, "a stage of {} layers does not divide into {} virtual stages", count,
                  repeats);
          return;
        }
        layout().layers_per_chunk.push_back(static_cast<int>(count / repeats));
      }
  }

  void data_parallelism() {
    layout().zero_stage = config_.distributed_optimizer.value_or(false) ? 1 : 0;
    if (config_.megatron_fsdp.value_or(false)) {
      const std::string strategy = config_.sharding_strategy.value_or("no_shard");
      const std::array<std::string_view, 4> words{"no_shard", "optim", "optim_grads",
                                                  "optim_grads_params"};
      const auto found = std::ranges::find(words, strategy);
      if (found == words.end())
        problem(config_.sharding_strategy,
                "is '{}'; allowed: no_shard, optim, optim_grads, optim_grads_params", strategy);
      else
        layout().zero_stage = static_cast<int>(found - words.begin());
    }
    if (config_.torch_fsdp2.value_or(false)) {
      layout().zero_stage = 3;
      layout().reshard_after_forward = config_.torch_fsdp2_reshard.value_or(true);
      if (layout().pipeline_parallel > 1)
        problem(config_.torch_fsdp2, "is not supported with pipeline parallelism");
    }
    const std::int64_t instances = size(config_.optimizer_instances, 1, most_ranks);
    if (instances == 1) return;
    if (layout().replicas() % instances != 0)
      problem(config_.optimizer_instances, "is {}, which does not divide the {} replicas",
              instances, layout().replicas());
    else if (layout().zero_stage > 0)
      layout().shard_group = static_cast<int>(layout().replicas() / instances);
  }

  void precision() {
    const bool bf16 = config_.bf16.value_or(false);
    const bool fp16 = config_.fp16.value_or(false);
    if (bf16 && fp16) problem(config_.fp16, "excludes bf16");
    const DType weights = bf16 ? DType::bf16 : fp16 ? DType::fp16 : DType::fp32;
    layout().compute_dtype = layout().activation_dtype = weights;
    layout().master_weights = weights != DType::fp32;
    if (config_.fp8) {
      if (weights != DType::bf16) problem(config_.fp8, "fp8 products are modelled beside bf16");
      layout().compute_dtype = DType::fp8;
      layout().activation_dtype = DType::bf16;
    }
    // validate_args: beside bf16 gradients are summed in fp32 unless --grad-reduce-in-bf16.
    const bool fp32 = config_.grads_in_fp32.value_or(weights == DType::bf16 &&
                                                     rules_.fp32_gradients_by_default) &&
                      !(weights == DType::bf16 && config_.grad_reduce_in_bf16.value_or(false));
    layout().gradient_dtype = fp32 ? DType::fp32 : weights;
    layout().reduce_dtype = layout().gradient_dtype;
  }

  // distributed_data_parallel.py: max(40 million, 1 million x data parallel) parameters.
  void buckets() {
    layout().overlap_gradients = config_.overlap_grad_reduce.value_or(false);
    if (!layout().overlap_gradients) {
      layout().bucket = layout().first_bucket = one_bucket;
      return;
    }
    const std::int64_t fallback =
        std::max<std::int64_t>(40'000'000, std::int64_t{1'000'000} * layout().replicas());
    const std::int64_t elements = size(config_.bucket_size, fallback, 1LL << 40);
    layout().bucket = Bytes{elements * bytes_of(layout().gradient_dtype)};
    layout().first_bucket = layout().bucket;
  }

  void overlap() {
    layout().overlap_parameters = config_.overlap_param_gather.value_or(false);
    if (layout().overlap_parameters) {
      if (layout().zero_stage == 0)
        problem(config_.overlap_param_gather, "needs the distributed optimizer or Megatron-FSDP");
      else if (!layout().overlap_gradients)
        problem(config_.overlap_param_gather, "needs the overlap of gradients, too");
    }
    // Without tensor parallelism there is nothing to overlap. Without sequence parallelism
    // Megatron-LM stops (arguments.py), Megatron-Bridge switches it off (comm_overlap.py).
    const bool buffers = config_.tp_comm_overlap.value_or(false) && layout().tensor_parallel > 1;
    layout().overlap_tensor_products = buffers && layout().sequence_parallel;
    if (buffers && !layout().sequence_parallel)
      note("tp-comm-overlap", "needs sequence parallelism: read as off");
    // Without virtual stages Megatron-LM switches the overlap of messages off.
    const bool interleaved = layout().virtual_stages > 1;
    layout().overlap_pipeline = interleaved && config_.overlap_p2p.value_or(true);
    if (interleaved && layout().pipeline_parallel < (layout().overlap_pipeline ? 2 : 3))
      problem(config_.pipeline_parallel, "is {}; virtual stages need {} or more{}",
              layout().pipeline_parallel, layout().overlap_pipeline ? 2 : 3,
              layout().overlap_pipeline ? "" : " without the overlap of messages");
  }

  void recomputation() {
    std::string granularity = config_.recompute_granularity.value_or("");
    if (config_.recompute_activations.value_or(false)) granularity = "selective";
    if (granularity.empty()) return;
    if (granularity == "selective") {
      selective();
    } else if (granularity == "full") {
      full();
    } else {
      problem(config_.recompute_granularity, "is '{}'; allowed: full, selective", granularity);
    }
  }

  void selective() {
    layout().recompute = Recompute::selective;
    if (config_.recompute_method)
      problem(config_.recompute_method, "does not go with selective recomputation");
    const std::string modules = config_.recompute_modules.value_or("core_attn");
    if (modules == "core_attn") return;
    const bool attention = modules.find("core_attn") != std::string::npos;
    if (!attention) layout().recompute = Recompute::none;
    note("recompute-modules", "recomputes {}; modelled: {}", modules,
         attention ? "core_attn alone" : "none of it");
  }

  void full() {
    layout().recompute = Recompute::full;
    const std::string method = config_.recompute_method.value_or("");
    const std::int64_t layers = config_.recompute_num_layers.value_or(1);
    if (method != "uniform" && method != "block")
      problem(
          config_.recompute_method.place ? config_.recompute_method : config_.recompute_granularity,
          "full recomputation needs --recompute-method uniform or block");
    if (method == "uniform" && layers != 1)
      note("recompute-num-layers", "units of {} layers are read as units of one", layers);
    if (method != "block") return;
    const std::int64_t most = layout().layers_per_chunk.empty()
                                  ? result_.shape.layers / layout().chunks()
                                  : *std::ranges::max_element(layout().layers_per_chunk);
    if (layers < most)
      problem(config_.recompute_num_layers,
              "recomputes {} of up to {} layers of a stage; modelled: all of them", layers, most);
  }

  void attention() {
    const std::string backend = config_.attention_backend.value_or("auto");
    if (backend == "flash")
      layout().attention = request_.has_flash_2 ? AttentionKernel::flash_2 : AttentionKernel::flash;
    else if (backend == "unfused" || backend == "local")
      layout().attention = AttentionKernel::unfused;
    else if (backend != "auto" && backend != "fused")
      problem(config_.attention_backend, "is '{}'; allowed: auto, fused, flash, unfused, local",
              backend);
  }

  void loss() {
    const std::string kernels = config_.loss_fusion.value_or("native");
    if (kernels != "native" && kernels != "te")
      problem(config_.loss_fusion, "is '{}'; allowed: native, te", kernels);
    const bool fused = config_.fused_loss.value_or(rules_.fuses_loss);
    result_.framework.loss = !fused            ? LossForm::separate
                             : kernels == "te" ? LossForm::in_place
                                               : LossForm::fused;
  }

  void optimizer() {
    Execution& runs = result_.framework.execution;
    runs.scales_gradients = !config_.average_in_collective.value_or(false);
    runs.checks_gradients = config_.check_gradients.value_or(rules_.checks_gradients);
    runs.separate_update = true;
  }

  const MegatronConfig& config_;
  const MegatronRules& rules_;
  const ImportRequest& request_;
  const ObjectReader& root_;
  Imported result_;
};

}  // namespace

Imported scenario_of_megatron(const MegatronConfig& config, const MegatronRules& rules,
                              const ImportRequest& request, const ObjectReader& root) {
  return Reader{config, rules, request, root}.read();
}

}  // namespace sim
