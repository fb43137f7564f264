#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/interop/settings.hpp"
#include "sim/model/expert_bias.hpp"

namespace sim {
namespace {

class MegatronReader : private SettingProblems {
 public:
  MegatronReader(const MegatronConfig& config, const MegatronRules& rules,
                 const ImportRequest& request, const ObjectReader& root)
      : SettingProblems{root}, config_{config}, rules_{rules}, request_{request} {}

  Imported read() {
    result_.framework = framework_of(FrameworkName::megatron);
    result_.framework.execution.separate_update = rules_.own_optimizer;
    read_megatron_model(config_, rules_, request_, *this, result_.shape);
    if (!parallelism()) return result_;
    read_expert_layout(config_, *this, result_);
    batch();
    read_pipeline(config_, rules_, *this, result_.shape.layers, layout());
    data_parallelism();
    precision();
    buckets();
    overlap();
    optimizer_kind();
    precision_aware();
    offload();
    recomputation();
    activations();
    attention();
    fusions();
    if (rules_.own_loss) loss();
    if (rules_.own_optimizer) optimizer();
    if (rules_.own_optimizer) read_memory_of_libraries(config_, request_, result_);
    own_kernels();
    list_unused_settings(config_, result_);
    return result_;
  }

 private:
  Layout& layout() { return result_.layout; }

  template <class... Parts>
  void note(std::string key, fmt::format_string<Parts...> text, Parts&&... parts) {
    result_.notes.push_back({std::move(key), fmt::format(text, std::forward<Parts>(parts)...)});
  }

  bool parallelism() {
    layout().tensor_parallel = static_cast<int>(size(config_.tensor_parallel, 1, most_ranks));
    layout().pipeline_parallel = static_cast<int>(size(config_.pipeline_parallel, 1, 10'000));
    layout().context_parallel = static_cast<int>(size(config_.context_parallel, 1, most_ranks));
    const std::int64_t inner = std::int64_t{layout().tensor_parallel} * layout().pipeline_parallel *
                               layout().context_parallel;
    if (request_.gpus < 1) {
      at_root("the number of GPUs is not in the file: give --gpus N, for example --gpus 64");
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
    const std::vector<int> sizes = hierarchical_sizes();
    const std::string exchange = config_.cp_comm_type.value_or("p2p");
    if (exchange == "allgather" || exchange == "all_gather")
      layout().context_exchange = ContextExchange::all_gather;
    else if (exchange == "a2a")
      layout().context_exchange = ContextExchange::all_to_all;
    else if (exchange == "a2a+p2p" && layout().context_parallel > 1)
      hierarchical_context(sizes);
    else if (exchange != "p2p" && layout().context_parallel > 1)
      problem(config_.cp_comm_type, "is '{}'; modelled: p2p, a2a, a2a+p2p, allgather", exchange);
    return true;
  }

  // arguments.py: the product of the sizes is the context-parallel size. Empty: they are not given,
  // or not so.
  std::vector<int> hierarchical_sizes() {
    std::vector<int> sizes;
    if (!config_.hierarchical_context) return sizes;
    std::int64_t product = 1;
    for (const std::string& name : names_in(*config_.hierarchical_context)) {
      int& size = sizes.emplace_back();
      const char* const end = name.data() + name.size();
      const bool whole = std::from_chars(name.data(), end, size).ptr == end;
      product = whole && size >= 1 ? std::min(product * size, most_ranks + 1) : 0;
    }
    if (product == layout().context_parallel) return sizes;
    problem(config_.hierarchical_context, "is '{}'; allowed: sizes with the product {}",
            *config_.hierarchical_context, layout().context_parallel);
    return {};
  }

  // The first size exchanges heads, the second goes round rings. Transformer Engine takes a size of
  // one for the other alone.
  void hierarchical_context(const std::vector<int>& sizes) {
    if (sizes.empty() && config_.hierarchical_context) return;  // said already
    if (sizes.size() != 2)
      return problem(config_.cp_comm_type,
                     "is a2a+p2p, for which --hierarchical-context-parallel-sizes has two sizes");
    if (sizes[1] == 1) {
      layout().context_exchange = ContextExchange::all_to_all;
    } else if (sizes[0] > 1) {
      layout().context_exchange = ContextExchange::all_to_all_ring;
      layout().context_heads = sizes[0];
    }
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
      at_root("the sequence length is missing (--seq-length)");
    if (!config_.micro_batch_size) at_root("the micro-batch is missing (--micro-batch-size)");
    layout().sequence_length =
        size(config_.seq_length, std::max<std::int64_t>(1, request_.sequence_length), most);
    layout().micro_batch = size(config_.micro_batch_size, 1, most);
    const std::int64_t unit = layout().micro_batch * layout().data_parallel;
    layout().global_batch = size(last_batch(), unit, most);
    if (layout().global_batch % unit != 0)
      problem(config_.global_batch_size,
              "is {}, no multiple of micro-batch {} x data parallel {} = {}", layout().global_batch,
              layout().micro_batch, layout().data_parallel, unit);
    const std::int64_t positions = config_.max_position_embeddings.value_or(0);
    if (config_.max_position_embeddings && positions < 1)
      problem(config_.max_position_embeddings, "is {}; allowed: 1 or more", positions);
    else if (positions > 0 && positions < layout().sequence_length)
      problem(config_.max_position_embeddings, "is {}, less than the sequence length {}", positions,
              layout().sequence_length);
  }

  // core/num_microbatches_calculator.py, StepBatchsizeNumMicroBatchesCalculator: "0:384 200B:768".
  Whole last_batch() {
    if (config_.global_batch_size || !config_.batch_schedule) return config_.global_batch_size;
    const std::string& text = *config_.batch_schedule;
    std::int64_t last = 0;
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + text.rfind(':') + 1, end, last);
    if (read.ec != std::errc{} || read.ptr != end)
      problem(config_.batch_schedule, "is '{}'; allowed: START:BATCH, such as 0:384 200B:768",
              text.substr(0, 80));
    note("--step-batch-size-schedule", "the final batch is forecast, {}", last);
    return {last, config_.batch_schedule.place, config_.batch_schedule.name};
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
    // Muon with the distributed optimizer (training/arguments.py).
    if (config_.optimizer.value_or("") == "dist_muon" && layout().zero_stage == 0)
      layout().zero_stage = 1;
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
      if (*config_.fp8 != "hybrid" && *config_.fp8 != "e4m3")
        problem(config_.fp8, "is '{}'; allowed: hybrid, e4m3", *config_.fp8);
      if (weights != DType::bf16) problem(config_.fp8, "fp8 products are modelled beside bf16");
      layout().compute_dtype = DType::fp8;
      layout().activation_dtype = DType::bf16;
      scaling();
    }
    if (config_.fp4) four_bits(weights);
    eight_bit_parameters();
    eight_bit_attention();
    bf16_layers();
    read_module_formats(config_, *this, result_);
    // validate_args: beside bf16 gradients are summed in fp32 unless --grad-reduce-in-bf16.
    const bool fp32 = config_.grads_in_fp32.value_or(weights == DType::bf16 &&
                                                     rules_.fp32_gradients_by_default) &&
                      !(weights == DType::bf16 && config_.grad_reduce_in_bf16.value_or(false));
    layout().gradient_dtype = fp32 ? DType::fp32 : weights;
    layout().reduce_dtype = layout().gradient_dtype;
  }

  void four_bits(DType weights) {
    if (*config_.fp4 != "e2m1") problem(config_.fp4, "is '{}'; allowed: e2m1", *config_.fp4);
    const std::string recipe = config_.fp4_recipe.value_or("nvfp4");
    if (recipe != "nvfp4") problem(config_.fp4_recipe, "is '{}'; modelled: nvfp4", recipe);
    if (config_.fp8) problem(config_.fp4, "excludes products in 8 bits");
    if (weights != DType::bf16) problem(config_.fp4, "fp4 products are modelled beside bf16");
    layout().compute_dtype = DType::nvfp4;
    layout().activation_dtype = DType::bf16;
  }

  // Megatron-LM, core/transformer/transformer_config.py: one layer each where it is not said.
  void bf16_layers() {
    if (!config_.bf16_ends.value_or(false) || !is_quantized(layout().compute_dtype)) return;
    layout().first_bf16_layers = static_cast<int>(bf16_layers(config_.bf16_at_start));
    layout().last_bf16_layers = static_cast<int>(bf16_layers(config_.bf16_at_end));
  }
  std::int64_t bf16_layers(const Whole& count) {
    const std::int64_t layers = count.value_or(1);
    if (layers < 0 || layers > 10'000) problem(count, "is {}; allowed: 0 to 10000", layers);
    return std::clamp<std::int64_t>(layers, 0, 10'000);
  }

  void scaling() {
    const std::string recipe = config_.fp8_recipe.value_or("delayed");
    const std::optional<EightBit> software = software_of_fp8_recipe(recipe);
    if (software)
      result_.framework.execution.eight_bit = *software;
    else
      problem(config_.fp8_recipe, "is '{}'; allowed: delayed, tensorwise, blockwise, mxfp8",
              recipe);
  }

  // Either asks for products of attention in 8 bits (core/extensions/transformer_engine.py,
  // fp8_dpa and fp8_mha of the recipe).
  void eight_bit_attention() {
    const bool whole = config_.fp8_whole_attention.value_or(false);
    if (!whole && !config_.fp8_attention.value_or(false)) return;
    if (!is_quantized(layout().compute_dtype))
      return problem(whole ? config_.fp8_whole_attention : config_.fp8_attention,
                     "attention in 8 bits needs 8-bit products (--fp8-format)");
    result_.framework.execution.eight_bit_attention =
        whole ? EightBitAttention::multi_head : EightBitAttention::dot_product;
  }

  // validate_args: "--fp8-param-gather only supported with distributed optimizer, torch fsdp2,
  // megatron fsdp"; with torch's it is switched off.
  void eight_bit_parameters() {
    if (config_.fp4 && config_.fp4_param_gather.value_or(false))
      layout().eight_bit_parameters = layout().zero_stage > 0;
    if (!config_.fp8_param_gather.value_or(false)) return;
    if (!config_.fp8)
      problem(config_.fp8_param_gather, "8-bit parameters need 8-bit products (--fp8-format)");
    else if (layout().zero_stage == 0)
      problem(config_.fp8_param_gather, "8-bit parameters need the distributed optimizer or FSDP");
    else if (config_.torch_fsdp2.value_or(false))
      note("fp8-param-gather", "with PyTorch's FSDP2 Megatron-LM switches it off");
    else
      layout().eight_bit_parameters = true;
  }

  void buckets() {
    layout().overlap_gradients = config_.overlap_grad_reduce.value_or(false);
    if (config_.buckets && config_.bucket_size)
      return problem(config_.buckets, "excludes bucket_size: Megatron-LM takes one of them");
    if (!layout().overlap_gradients) return;
    if (config_.buckets) layout().buckets = static_cast<int>(size(config_.buckets, 1, 1'000'000));
    if (!config_.bucket_size) return;
    const std::int64_t elements = size(config_.bucket_size, 1, 1LL << 40);
    layout().bucket = Bytes{elements * bytes_of(layout().gradient_dtype)};
  }

  void overlap() {
    layout().overlap_parameters = config_.overlap_param_gather.value_or(false);
    if (layout().overlap_parameters) {
      if (layout().zero_stage == 0)
        problem(config_.overlap_param_gather, "needs the distributed optimizer or Megatron-FSDP");
      else if (!layout().overlap_gradients)
        gathers_alone();
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

  // Megatron-LM stops (arguments.py), Megatron-Bridge does not. A bucket is then all of a chunk
  // (core/distributed/distributed_data_parallel.py), for which the first pass waits.
  void gathers_alone() {
    if (rules_.gathers_need_gradients)
      return problem(config_.overlap_param_gather, "needs the overlap of gradients, too");
    layout().overlap_parameters = false;
    note("overlap_param_gather",
         "without the overlap of gradients parameters are in one bucket: forecast as gathered at "
         "once, before the first pass");
  }

  // core/optimizer/cpu_offloading reuses the code of the precision-aware optimizer.
  void offload() {
    if (!config_.offload_optimizer.value_or(false)) {
      return;
    }
    const double fraction = config_.offload_fraction.value_or(1);
    if (fraction < 0 || fraction > 1)
      return problem(config_.offload_fraction, "is {}; allowed: 0 to 1", fraction);
    if (layout().zero_stage == 0)
      return problem(config_.offload_optimizer, "needs the distributed optimizer");
    if (fraction == 0) return;
    layout().offload_optimizer = OffloadTarget::cpu;
    layout().offload_fraction = fraction;
    layout().offload_overlap = config_.overlap_offload.value_or(false);
  }

  void recomputation() {
    std::string granularity = config_.recompute_granularity.value_or("");
    if (config_.recompute_activations.value_or(false)) granularity = "selective";
    // transformer_config.py, __post_init__: selective recomputation of `moe` besides.
    const bool experts = config_.recompute_experts.value_or(false);
    if (experts && granularity == "full")
      return problem(config_.recompute_experts, "does not go with full recomputation");
    if (experts && granularity.empty()) granularity = "selective";
    if (granularity.empty() || granularity == "none" || granularity == "None") return;
    if (granularity == "selective") {
      selective();
    } else if (granularity == "full") {
      full();
    } else {
      problem(config_.recompute_granularity, "is '{}'; allowed: full, selective", granularity);
    }
  }

  // core/transformer/transformer_config.py, __post_init__: cpu_offloading goes without pipelines
  // and recomputation, fine-grained offloading with a list of modules.
  void activations() {
    const bool layers = config_.offload_activations.value_or(false) ||
                        (!config_.offload_activations && config_.offload_layers.value_or(0) > 0);
    const bool modules = config_.offload_some_activations.value_or(false);
    if (!layers && !modules) return;
    layout().offload_activations = OffloadTarget::cpu;
    if (layers && modules)
      return problem(config_.offload_some_activations, "does not go with cpu offloading by layers");
    if (modules) return offload_modules();
    const std::int64_t count = config_.offload_layers.value_or(0);
    const Whole& at = config_.offload_layers;
    if (count < 1 || count >= result_.shape.layers)
      return problem(at, "is {}; allowed: 1 to {}, the layers less one", count,
                     result_.shape.layers - 1);
    if (layout().pipeline_parallel > 1)
      return problem(at, "does not go with pipeline parallelism in Megatron-LM");
    if (layout().recompute != Recompute::none)
      return problem(at, "does not go with recomputation in Megatron-LM");
    if (config_.offload_weights.value_or(false))
      problem(config_.offload_weights,
              "weights on the host are modelled as DeepSpeed's and FSDP's, not as Megatron-LM's");
    // All but the last is the layout's default.
    layout().offload_layers = count + 1 == result_.shape.layers ? 0 : static_cast<int>(count);
  }

  void offload_modules() {
    for (const std::string& name : names_in(config_.offload_modules.value_or(""))) {
      const std::optional<OffloadModule> module = from_word<OffloadModule>(name);
      if (!module)
        return problem(config_.offload_modules,
                       "has {}, which is not modelled; allowed: attn_norm, qkv_linear, core_attn, "
                       "attn_proj, mlp_norm, expert_fc1, moe_act, fused_group_mlp",
                       name);
      layout().offload_modules.push_back(*module);
    }
    if (layout().offload_modules.empty())
      problem(config_.offload_some_activations, "needs a list of modules (--offload-modules)");
    layout().offload_least = size(config_.least_offloaded, 0, std::int64_t{1} << 40, 0);
  }

  void selective() {
    layout().recompute = Recompute::selective;
    if (config_.recompute_method)
      problem(config_.recompute_method, "does not go with selective recomputation");
    const bool experts = config_.recompute_experts.value_or(false);
    if (!config_.recompute_modules && !experts) return;
    for (const std::string& name :
         names_in(config_.recompute_modules.value_or("core_attn") + (experts ? " moe" : ""))) {
      const std::optional<RecomputeModule> module = from_word<RecomputeModule>(name);
      if (!module)
        return problem(config_.recompute_modules,
                       "has {}, which is not modelled; allowed: core_attn, mla_up_proj, mlp, moe, "
                       "moe_act, shared_experts, layernorm",
                       name);
      if (!layout().recomputes(*module)) layout().recompute_modules.push_back(*module);
    }
    part_of_experts();
    if (layout().recompute_modules.empty())  // an empty list runs nothing again
      layout().recompute = Recompute::none;
  }

  // Within a pass that runs again the activation is dropped once more (core/transformer/moe).
  void part_of_experts() {
    if (!layout().recomputes(RecomputeModule::moe) ||
        std::erase(layout().recompute_modules, RecomputeModule::moe_act) == 0)
      return;
    note("recompute-modules",
         "moe_act is a part of moe: that the activation runs a third time is not modelled");
  }

  // core/optimizer/emerging_optimizers.py.
  void optimizer_kind() {
    const std::string name = config_.optimizer.value_or("adam");
    if (name == "adam") return;
    if (name != "muon" && name != "dist_muon")
      return problem(config_.optimizer,
                     "is '{}'; modelled: adam, muon. To forecast the job with Adam, --set "
                     "optimizer=adam",
                     name);
    layout().optimizer = OptimizerKind::muon;
    if (config_.newton_schulz_steps.value_or(5) != 5)
      problem(config_.newton_schulz_steps, "is {}; modelled: 5",
              config_.newton_schulz_steps.value_or(5));
    if (layout().tensor_parallel > 1) muon_over_tensor_ranks();
    result_.framework.execution.deals_parameters = !config_.muon_parameter_layout.value_or(true);
    if (config_.muon_syrk.value_or(false))
      problem(config_.muon_syrk, "is not modelled: products are modelled as whole");
  }

  // muon_utils.py, newton_schulz_tp: blockwise makes each rank's part of a matrix orthogonal,
  // without a message, where duplicated gathers the matrix and does the work of the whole on every
  // rank.
  void muon_over_tensor_ranks() {
    const std::string mode = config_.muon_tensor_mode.value_or("duplicated");
    if (mode == "blockwise")
      result_.notes.push_back({"muon_tp_mode",
                               "blockwise is forecast as duplicated, an upper bound: matrices are "
                               "gathered and made orthogonal as a whole on every tensor rank",
                               true});
    else if (mode != "duplicated")
      problem(config_.muon_tensor_mode, "is '{}'; modelled: duplicated, blockwise", mode);
  }

  // A format of --use-precision-aware-optimizer, of those that its flag allows.
  DType optimizer_format(const Text& setting, std::initializer_list<DType> allowed) {
    if (!setting) return DType::fp32;
    const std::optional<DType> dtype = from_word<DType>(*setting);
    if (dtype && std::find(allowed.begin(), allowed.end(), *dtype) != allowed.end()) return *dtype;
    std::string words;
    for (const DType one : allowed)
      words += fmt::format("{}{}", words.empty() ? "" : ", ", word(one));
    problem(setting, "is '{}'; allowed: {}", *setting, words);
    return DType::fp32;
  }

  // training/arguments.py; core/optimizer/optimizer_config.py, __post_init__. Of an fp32 copy of
  // bf16 weights Transformer Engine keeps the 16 bits that these do not have
  // (store_param_remainders), but where weights are 8 bits themselves.
  void precision_aware() {
    const DType gradients = optimizer_format(config_.main_gradients, {DType::fp32, DType::bf16});
    const DType masters = optimizer_format(config_.main_parameters, {DType::fp32, DType::fp16});
    const auto moments = {DType::fp32, DType::fp16, DType::bf16, DType::fp8};
    const DType first = optimizer_format(config_.first_moment, moments);
    const DType second = optimizer_format(config_.second_moment, moments);
    const bool plain = gradients == DType::fp32 && masters == DType::fp32 && first == DType::fp32 &&
                       second == DType::fp32;
    const bool aware = config_.precision_aware_optimizer.value_or(false);
    const Text& said = config_.main_gradients    ? config_.main_gradients
                       : config_.main_parameters ? config_.main_parameters
                       : config_.first_moment    ? config_.first_moment
                                                 : config_.second_moment;
    if (!aware) {
      if (!plain) problem(said, "needs --use-precision-aware-optimizer");
      return;
    }
    if (config_.offload_optimizer.value_or(false)) {
      if (!plain) problem(said, "is modelled as fp32 with --optimizer-cpu-offload");
      return;
    }
    if (layout().zero_stage == 0)
      return problem(config_.precision_aware_optimizer, "needs the distributed optimizer");
    layout().moment_dtype = first;
    if (second != first) layout().second_moment_dtype = second;
    // Scales that are not delayed: Megatron-LM has the masters (optimizer_config.py,
    // use_precision_aware_optimizer_no_fp8_or_ds_fp8).
    const bool bf16 = layout().activation_dtype == DType::bf16 &&
                      (layout().compute_dtype != DType::fp8 ||
                       delays_scaling(result_.framework.execution.eight_bit));
    layout().master_format = masters == DType::fp16                   ? MasterFormat::fp16
                             : bf16 && !layout().eight_bit_parameters ? MasterFormat::remainders
                                                                      : MasterFormat::fp32;
    if (gradients != DType::bf16) return;
    if (config_.grads_in_fp32.value_or(false))
      return problem(config_.main_gradients, "excludes gradients in fp32");
    layout().gradient_dtype = layout().reduce_dtype = DType::bf16;
  }

  void full() {
    layout().recompute = Recompute::full;
    const std::string method = config_.recompute_method.value_or("");
    const std::int64_t layers = config_.recompute_num_layers.value_or(1);
    if (layers < 1)
      return problem(config_.recompute_num_layers, "is {}; allowed: 1 or more", layers);
    if (method != "uniform" && method != "block")
      problem(
          config_.recompute_method.place ? config_.recompute_method : config_.recompute_granularity,
          "full recomputation needs --recompute-method uniform or block");
    if (method == "uniform" && layers != 1)
      result_.notes.push_back(
          {"recompute-num-layers",
           fmt::format(
               "units of {0} layers are forecast as units of one: in memory {0} inputs of "
               "layers for each unit instead of one, and what one layer keeps while it runs "
               "again instead of what {0} do",
               layers),
           true});
    if (method != "block") return;
    const std::int64_t most = layout().layers_per_chunk.empty()
                                  ? result_.shape.layers / layout().chunks()
                                  : *std::ranges::max_element(layout().layers_per_chunk);
    // core/transformer/transformer_block.py, _checkpointed_forward: the first of each chunk.
    if (layers < most) layout().recompute_layers = static_cast<int>(layers);
  }

  void attention() {
    const std::string backend = config_.attention_backend.value_or("auto");
    if (backend == "flash")
      layout().attention = request_.has_flash_2 ? AttentionKernel::flash_2 : AttentionKernel::flash;
    else if (backend == "unfused" || backend == "local" || (backend == "auto" && is_local()))
      layout().attention = AttentionKernel::unfused;
    else if (backend != "auto" && backend != "fused")
      problem(config_.attention_backend, "is '{}'; allowed: auto, fused, flash, unfused, local",
              backend);
  }

  // Its attention keeps scores (core/transformer/dot_product_attention.py).
  bool is_local() const {
    return config_.transformer_impl.value_or("transformer_engine") == "local";
  }

  void own_kernels() {
    const std::string kernels = config_.transformer_impl.value_or("transformer_engine");
    if (is_local())
      note("--transformer-impl",
           "other kernels than attention are modelled as Transformer Engine's");
    else if (kernels != "transformer_engine")
      note("--transformer-impl", "kernels are modelled as Transformer Engine's");
    if (config_.deterministic.value_or(false))
      result_.notes.push_back({"--deterministic-mode", "kernels are modelled at full speed", true});
    if (!config_.gradient_accumulation_fusion.value_or(true))
      note("--no-gradient-accumulation-fusion",
           "gradients are modelled as accumulated by the product");
  }

  // Kernels that a flag takes apart.
  void fusions() {
    Framework& framework = result_.framework;
    if (!config_.rotary_fusion.value_or(true)) framework.rotary = RotaryForm::eager;
    if (!config_.softmax_fusion.value_or(true)) framework.softmax = KernelForm::eager;
    if (!config_.gate_fusion.value_or(true) && is_gated(result_.shape.activation))
      framework.gate = KernelForm::eager;
    if (config_.activation_clamp && !clamps_experts(result_.shape))
      note("activation-func-clamp-value", "the clamp is modelled as part of the activation");
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
    runs.operation_fuser = config_.operation_fuser.value_or(false);
    runs.keeps_gate_inputs_in_fp8 = config_.fp8_gate_inputs.value_or(false);
    runs.router_fusion = config_.router_fusion.value_or(false) && result_.shape.experts.count > 0;
  }

  const MegatronConfig& config_;
  const MegatronRules& rules_;
  const ImportRequest& request_;
  Imported result_;
};

struct ScalingRecipe {
  std::string_view name;
  EightBit software;
};
constexpr std::array scaling_recipes{
    ScalingRecipe{"delayed", EightBit::transformer_engine},
    ScalingRecipe{"tensorwise", EightBit::transformer_engine_tensorwise},
    ScalingRecipe{"blockwise", EightBit::transformer_engine_blockwise},
    ScalingRecipe{"mxfp8", EightBit::transformer_engine_mxfp8}};

}  // namespace

std::optional<EightBit> software_of_fp8_recipe(std::string_view recipe) {
  for (const ScalingRecipe& one : scaling_recipes)
    if (one.name == recipe) return one.software;
  return std::nullopt;
}

std::optional<std::string_view> fp8_recipe_of(EightBit software) {
  for (const ScalingRecipe& one : scaling_recipes)
    if (one.software == software) return one.name;
  return std::nullopt;
}

Imported scenario_of_megatron(const MegatronConfig& config, const MegatronRules& rules,
                              const ImportRequest& request, const ObjectReader& root) {
  return MegatronReader{config, rules, request, root}.read();
}

}  // namespace sim
