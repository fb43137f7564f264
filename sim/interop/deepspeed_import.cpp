// DeepSpeed's JSON, with the flags of Megatron-DeepSpeed beside it, as a scenario.
//
// Sources: deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py (commit 1b88ac36) and
// runtime/constants.py; deepspeedai/Megatron-DeepSpeed megatron/arguments.py (commit 207b2d5a).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/interop/formats.hpp"
#include "sim/interop/settings.hpp"
#include "sim/model/transformer.hpp"
#include "sim/plan/deepspeed.hpp"

namespace sim {
namespace {

constexpr std::array zero_keys{
    KnownKey{"offload_param", Verdict::refused, "", "offloading to the host is not modelled"},
    KnownKey{"offload_optimizer", Verdict::refused, "", "offloading to the host is not modelled"},
    KnownKey{"cpu_offload*", Verdict::refused, "", "offloading to the host is not modelled"},
    KnownKey{"zero_hpz_partition_size", Verdict::refused, "1",
             "secondary partitions (ZeRO++) are not modelled"},
    KnownKey{"zero_quantized_*", Verdict::refused, "", "quantised messages are not modelled"},
    KnownKey{"zenflow", Verdict::refused, "", "not modelled"},
    KnownKey{"mics_hierarchical_params_gather", Verdict::noted, "",
             "parameters are modelled as gathered in one level"},
    KnownKey{"stage3_max_live_parameters"},
    KnownKey{"stage3_max_reuse_distance", Verdict::noted, "1000000000",
             "gathered weights are modelled as freed behind each layer"},
    KnownKey{"stage3_param_persistence_threshold"},
    KnownKey{"*"},
};
constexpr std::array top_keys{
    KnownKey{"optimizer"},
    KnownKey{"scheduler"},
    KnownKey{"zero_allow_untested_optimizer"},
    KnownKey{"zero_force_ds_cpu_optimizer"},
    KnownKey{"gradient_clipping"},
    KnownKey{"prescale_gradients"},
    KnownKey{"gradient_predivide_factor"},
    KnownKey{"sparse_gradients", Verdict::refused, "", "sparse gradients are not modelled"},
    KnownKey{"seq_parallel_communication_data_type"},
    KnownKey{"steps_per_print"},
    KnownKey{"wall_clock_breakdown"},
    KnownKey{"dump_state"},
    KnownKey{"memory_breakdown"},
    KnownKey{"flops_profiler"},
    KnownKey{"tensorboard"},
    KnownKey{"wandb"},
    KnownKey{"csv_monitor"},
    KnownKey{"comet"},
    KnownKey{"comms_logger"},
    KnownKey{"checkpoint"},
    KnownKey{"data_sampling"},
    KnownKey{"dataloader_drop_last"},
    KnownKey{"disable_allgather"},
    KnownKey{"activation_checkpointing", Verdict::noted, "",
             "what is recomputed is the program's choice: set layout.recompute"},
    KnownKey{"amp", Verdict::refused, "", "apex's amp is not modelled"},
    KnownKey{"torch_autocast", Verdict::refused, "", "not modelled"},
    KnownKey{"sparse_attention", Verdict::refused, "", "not modelled"},
    KnownKey{"compression_training", Verdict::refused, "", "not modelled"},
    KnownKey{"data_efficiency", Verdict::noted, "", "not modelled"},
    KnownKey{"curriculum_learning", Verdict::noted, "", "the full sequence length is forecast"},
    KnownKey{"progressive_layer_drop", Verdict::noted, "", "all layers are forecast"},
    KnownKey{"elasticity", Verdict::noted, "", "the batch is forecast as it is written"},
    KnownKey{"autotuning"},
    KnownKey{"compile", Verdict::noted, "", "kernels are modelled as eager: set framework"},
    KnownKey{"expert_parallel", Verdict::refused, "",
             "a mixture of experts is modelled only as Megatron-LM runs it"},
    KnownKey{"pipeline", Verdict::noted, "", "see layout.layers_per_chunk"},
};

class DeepSpeedReader {
 public:
  DeepSpeedReader(const ObjectReader& json, const ObjectReader* flags, const ImportRequest& request)
      : json_{json}, flags_{flags}, request_{request} {}

  Imported read() {
    if (flags_) read_flags();
    unset_auto();
    batch();
    formats();
    const ObjectReader& root = flags_ ? *flags_ : json_;
    Imported from = scenario_of_megatron(config_,
                                         {.fp32_gradients_by_default = false,
                                          .groups_without_switch = true,
                                          .own_loss = false,
                                          .own_optimizer = false},
                                         request_, root);
    from.notes.insert(from.notes.end(), result_.notes.begin(), result_.notes.end());
    from.ignored = result_.ignored;
    from.graphs = result_.graphs;
    result_ = std::move(from);
    kernels();
    gradients();
    zero();
    judge_keys(json_, top_keys, "", result_);
    return result_;
  }

 private:
  Layout& layout() { return result_.layout; }

  // A key with the value "auto", which transformers fills in, says nothing.
  bool says(const ObjectReader& from, std::string_view key) const {
    const std::optional<ValueReader> value = from.find(key);
    return value && value->peek_text().value_or("") != "auto";
  }
  template <class T>
  Setting<T> setting(const ObjectReader& from, std::string_view key) const {
    Setting<T> read;
    if (says(from, key)) read_setting(from, key, read);
    return read;
  }
  std::optional<ObjectReader> section(std::string_view key) const {
    const std::optional<ValueReader> value = json_.find(key);
    return value && value->is_object() ? std::optional{value->object()} : std::nullopt;
  }

  void read_flags() {
    for (const auto& [flag, kernel] : attention_flags) {
      Flag on;
      read_setting(*flags_, flag, on);
      if (on.value_or(false)) attention_ = kernel;
    }
    read_setting(*flags_, "--enable-zbh1-pipeline", zero_bubble_);
    read_setting(*flags_, "--checkpoint-activations", checkpoints_);
    for (const char* without_effect : {"--deepspeed-activation-checkpointing",
                                       "--checkpoint-num-layers", "--enable-zbh1-exact-semantics"})
      static_cast<void>(flags_->has(without_effect));
    config_ = read_megatron_flags(*flags_, request_, result_);
    refuse_own_experts();
  }

  // Those of Megatron-DeepSpeed, which are 1 in a model without.
  void refuse_own_experts() {
    if (config_.num_experts.value_or(1) > 1)
      config_.num_experts.place->problem(
          "a mixture of experts is modelled only as Megatron-LM runs it");
    config_.num_experts = Whole{};
  }

  // tensor_parallel.autotp_size, DeepSpeed's own splitting.
  void unset_auto() {
    const auto tensor = section("tensor_parallel");
    if (!tensor) return;
    const Whole size = setting<std::int64_t>(*tensor, "autotp_size");
    if (!size) return;
    if (config_.tensor_parallel && *config_.tensor_parallel != *size)
      size.place->problem("differs from --tensor-model-parallel-size");
    config_.tensor_parallel = size;
  }

  // train_batch_size = micro-batch x accumulation steps x replicas; two of three suffice.
  void batch() {
    const Whole whole = setting<std::int64_t>(json_, "train_batch_size");
    const Whole micro = setting<std::int64_t>(json_, "train_micro_batch_size_per_gpu");
    const Whole steps = setting<std::int64_t>(json_, "gradient_accumulation_steps");
    const std::int64_t split = std::max<std::int64_t>(1, config_.tensor_parallel.value_or(1)) *
                               std::max<std::int64_t>(1, config_.pipeline_parallel.value_or(1));
    const std::int64_t replicas =
        std::max<std::int64_t>(1, request_.gpus / std::min<std::int64_t>(split, 1 << 20));
    constexpr std::int64_t most = 1LL << 32;
    for (const Whole* value : {&whole, &micro, &steps})
      if (*value && (**value < 1 || **value > most)) {
        value->place->problem(fmt::format("is {}; allowed: 1 to {}", **value, most));
        return;
      }
    std::int64_t one = micro.value_or(config_.micro_batch_size.value_or(0));
    if (one == 0 && whole)
      one = *whole /
            std::max<std::int64_t>(1, replicas * std::min(steps.value_or(1), most / replicas));
    if (one < 1) {
      json_.problem(
          "the batch is not in the file: two of train_batch_size, "
          "train_micro_batch_size_per_gpu and gradient_accumulation_steps are needed");
      return;
    }
    const std::int64_t unit = std::min(one, most / replicas) * replicas;
    const std::int64_t all = whole.value_or(steps ? std::min(*steps, most / unit) * unit
                                                  : config_.global_batch_size.value_or(unit));
    if (steps && whole && (*whole % unit != 0 || *whole / unit != *steps))
      whole.place->problem(fmt::format("is {}, not micro-batch {} x {} steps x {} replicas", *whole,
                                       one, *steps, replicas));
    config_.micro_batch_size = Whole{one, micro.place};
    config_.global_batch_size = Whole{all, whole.place};
  }

  void formats() {
    for (const auto& [key, flag] :
         {std::pair{"bf16", &config_.bf16}, {"bfloat16", &config_.bf16}, {"fp16", &config_.fp16}}) {
      const auto found = section(key);
      if (!found) continue;
      found->ignore_unknown();
      const Flag enabled = setting<bool>(*found, "enabled");
      if (enabled) *flag = enabled;
    }
  }

  static std::optional<DType> dtype_of(const std::string& name) {
    if (name == "fp32" || name == "float32") return DType::fp32;
    if (name == "bf16" || name == "bfloat16" || name == "bfp16") return DType::bf16;
    if (name == "fp16" || name == "float16") return DType::fp16;
    return std::nullopt;
  }
  DType dtype(const Text& name, DType fallback) const {
    if (!name) return fallback;
    const std::optional<DType> known = dtype_of(*name);
    if (!known) name.place->problem(fmt::format("is '{}'; allowed: fp32, bf16, fp16", *name));
    return known.value_or(fallback);
  }

  // runtime/engine.py: gradients are kept in the weights' format, in fp32 beside bf16 without ZeRO,
  // and are sent in the weights' format.
  void gradients() {
    const DType weights = layout().activation_dtype;
    const auto zero_section = section("zero_optimization");
    const bool zero = zero_section && setting<std::int64_t>(*zero_section, "stage").value_or(0) > 0;
    const auto types = section("data_types");
    const Text kept = types ? setting<std::string>(*types, "grad_accum_dtype") : Text{};
    layout().gradient_dtype = dtype(kept, weights == DType::bf16 && !zero ? DType::fp32 : weights);
    layout().reduce_dtype = dtype(setting<std::string>(json_, "communication_data_type"), weights);
  }

  void zero() {
    layout().overlap_gradients = layout().overlap_parameters = false;
    const auto found = section("zero_optimization");
    if (found) {
      const Whole stage = setting<std::int64_t>(*found, "stage");
      const std::int64_t value = stage.value_or(0);
      if (value < 0 || value > 3)
        stage.place->problem(fmt::format("is {}; allowed: 0, 1, 2, 3", value));
      else
        layout().zero_stage = static_cast<int>(value);
      static_cast<void>(found->has("allgather_bucket_size"));
      overlap(*found);
      if (layout().zero_stage == 3) stage_3(*found);
      mics(*found);
      ways_of_reduction(*found);
      judge_keys(*found, zero_keys, "zero_optimization.", result_);
    }
    if (takes_bf16_optimizer(layout()) && layout().zero_stage == 0 && layout().replicas() > 1) {
      layout().zero_stage = 1;
      note("layout.zero_stage",
           "1: with bf16 and gradients in fp32 DeepSpeed shards the optimizer at stage 0 too");
    }
    if (found) bucket(*found);
  }

  void note(const char* key, std::string what) { result_.notes.push_back({key, std::move(what)}); }

  // overlap_comm_valid(): on by itself for stage 3 only.
  void overlap(const ObjectReader& from) {
    const int stage = layout().zero_stage;
    const bool asked = setting<bool>(from, "overlap_comm").value_or(stage == 3);
    const bool can = can_overlap_gradients(layout());
    layout().overlap_gradients = asked && can;
    layout().overlap_parameters = stage == 3;
    if (asked && !can)
      note("zero_optimization.overlap_comm",
           "no effect: DeepSpeed overlaps under its ZeRO optimizers without a pipeline");
  }

  void ways_of_reduction(const ObjectReader& from) {
    for (const auto& [key, what] :
         {std::pair{"reduce_scatter", "as if it were true"},
          {"use_multi_rank_bucket_allreduce", "a bucket is modelled as one all-reduce"},
          {"contiguous_gradients", "gradients are modelled as copied into a bucket"}})
      if (!setting<bool>(from, key).value_or(true))
        note("zero_optimization", fmt::format("{} is false; {}", key, what));
  }

  void bucket(const ObjectReader& from) {
    const Whole size = setting<std::int64_t>(from, "reduce_bucket_size");
    if (!size) return;
    if (*size < 1 || *size > (1LL << 40))
      size.place->problem(fmt::format("is {}; allowed: 1 to {}", *size, 1LL << 40));
    else
      layout().bucket = Bytes{*size * bytes_of(layout().gradient_dtype)};
  }

  // So many layers as the prefetch's elements reach into.
  void stage_3(const ObjectReader& from) {
    const Whole size = setting<std::int64_t>(from, "stage3_prefetch_bucket_size");
    const std::int64_t ahead = size.value_or(50'000'000);
    if (ahead < 0 || ahead > (1LL << 50)) {
      size.place->problem(fmt::format("is {}; allowed: 0 and more", ahead));
      return;
    }
    if (result_.shape.hidden == 0 || result_.shape.heads == 0) return;  // a problem already
    const std::int64_t layer =
        std::max<std::int64_t>(1, transformer_layer(result_.shape).parameters());
    layout().prefetch_layers =
        static_cast<int>(std::min<std::int64_t>(1000, ahead / layer + (ahead % layer > 0 ? 1 : 0)));
  }

  void mics(const ObjectReader& from) {
    const Whole size = setting<std::int64_t>(from, "mics_shard_size");
    if (!size || *size == -1) return;
    if (layout().zero_stage != 3 || *size < 1 || layout().replicas() % *size != 0)
      size.place->problem(fmt::format("is {}; with zero stage 3 it divides the {} replicas", *size,
                                      layout().replicas()));
    else if (*size < layout().replicas())
      layout().shard_group = static_cast<int>(*size);
  }

  void kernels() {
    layout().overlap_pipeline = false;
    if (zero_bubble_.value_or(false)) layout().schedule = Schedule::zb_h1;
    if (checkpoints_.value_or(false)) layout().recompute = Recompute::full;
    result_.framework =
        framework_of(flags_ ? FrameworkName::megatron_deepspeed : FrameworkName::deepspeed);
    if (flags_) {
      layout().attention = attention_.value_or(AttentionKernel::unfused);
      if (layout().attention == AttentionKernel::flash_2 && !request_.has_flash_2)
        layout().attention = AttentionKernel::flash;
      return;
    }
    layout().attention = request_.has_flash_2 ? AttentionKernel::flash_2 : AttentionKernel::flash;
    note("layout.recompute", "the JSON does not say what is recomputed: none");
    note("framework", "eager PyTorch kernels with flash attention are assumed");
  }

  static constexpr std::array attention_flags{
      std::pair{"--use-flash-attn", AttentionKernel::flash_1},
      std::pair{"--use-flash-attn-v1", AttentionKernel::flash_1},
      std::pair{"--use-flash-attn-triton", AttentionKernel::flash_1},
      std::pair{"--use-flash-attn-v2", AttentionKernel::flash_2}};

  const ObjectReader& json_;
  const ObjectReader* flags_;
  const ImportRequest& request_;
  MegatronConfig config_;
  Imported result_;
  std::optional<AttentionKernel> attention_;
  Flag zero_bubble_, checkpoints_;
};

}  // namespace

Imported import_deepspeed(const Document& json, const Document* flags,
                          const ImportRequest& request) {
  refuse_experts(json, request);
  const ObjectReader root = json.root_object();
  std::optional<ObjectReader> flag_root;
  if (flags) flag_root = flags->root_object();
  Imported result = DeepSpeedReader{root, flag_root ? &*flag_root : nullptr, request}.read();
  if (flags) flags->finish();
  finish_import(json, root, result);
  return result;
}

}  // namespace sim
