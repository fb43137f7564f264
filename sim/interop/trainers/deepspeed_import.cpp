// DeepSpeed's JSON, with the flags of Megatron-DeepSpeed beside it, as a scenario.
//
// "auto" is what transformers fills in: the batch and the format from its arguments, which are
// options here, sizes of stage 3 from the model (huggingface/transformers
// src/transformers/integrations/deepspeed.py, commit 02348331, trainer_config_finalize).
//
// Sources: deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py (commit 1b88ac36) and
// runtime/constants.py; deepspeedai/Megatron-DeepSpeed megatron/arguments.py (commit 207b2d5a).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/framework/deepspeed.hpp"
#include "sim/interop/formats.hpp"
#include "sim/interop/job_batch.hpp"
#include "sim/interop/missing_options.hpp"
#include "sim/interop/settings.hpp"
#include "sim/interop/trainers/deepspeed_keys.hpp"
#include "sim/interop/trainers/experts_of_trainer.hpp"
#include "sim/model/transformer.hpp"

namespace sim {
namespace {

class DeepSpeedReader {
 public:
  DeepSpeedReader(const ObjectReader& json, const ObjectReader* flags, const ImportRequest& request)
      : json_{json}, flags_{flags}, request_{request} {}

  Imported read() {
    if (flags_) read_flags();
    check_sections();
    own_tensor_parallelism();
    ulysses();
    formats();
    if (!batch()) return result_;
    const ObjectReader& root = flags_ ? *flags_ : json_;
    Imported from = scenario_of_megatron(config_,
                                         {.fp32_gradients_by_default = false,
                                          .groups_without_switch = true,
                                          .own_loss = false,
                                          .own_optimizer = false},
                                         request_, root);
    from.notes.insert(from.notes.end(), result_.notes.begin(), result_.notes.end());
    from.ignored.insert(from.ignored.end(), result_.ignored.begin(), result_.ignored.end());
    from.graphs = result_.graphs;
    result_ = std::move(from);
    kernels();
    gradients();
    zero();
    rest();
    return result_;
  }

 private:
  Layout& layout() { return result_.layout; }

  template <class T>
  static Setting<T> setting(const ObjectReader& from, std::string_view key) {
    return deepspeed_setting<T>(from, key);
  }
  std::optional<ObjectReader> section(std::string_view key) const {
    const std::optional<ValueReader> value = json_.find(key);
    return value && value->is_object() ? std::optional{value->object()} : std::nullopt;
  }
  // Once for each, as sections are asked for more than once.
  void check_sections() const {
    for (const char* key : {"bf16", "bfloat16", "fp16", "data_types", "tensor_parallel"})
      static_cast<void>(section_at(json_, key));
    const auto zero = section("zero_optimization");
    if (zero && is_auto(*zero, "stage"))
      zero->problem("stage", "nothing fills in the stage: write 0, 1, 2 or 3");
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

  // refuse_own_experts() is for those of Megatron-DeepSpeed, which are 1 in a model without.
  void refuse_own_experts() {
    if (config_.num_experts.value_or(1) > 1)
      config_.num_experts.place->problem(
          "a mixture of experts is modelled only as Megatron-LM and torchtitan run it");
    config_.num_experts = Whole{};
  }

  // tensor_parallel.autotp_size, DeepSpeed's own splitting.
  void own_tensor_parallelism() {
    const auto tensor = section("tensor_parallel");
    if (!tensor) return;
    const Whole size = setting<std::int64_t>(*tensor, "autotp_size");
    if (!size || *size == 0) return;
    if (config_.tensor_parallel && *config_.tensor_parallel != *size)
      size.place->problem("differs from --tensor-model-parallel-size");
    config_.tensor_parallel = size;
  }

  // DeepSpeed's Ulysses (sequence/layer.py; runtime/sequence_parallel/ulysses_sp.py): ranks share a
  // sequence and exchange heads in all-to-alls.
  void ulysses() {
    Whole ranks = setting<std::int64_t>(json_, "sequence_parallel_size");
    if (!ranks && request_.sequence_ranks > 0) ranks = request_.sequence_ranks;
    if (ranks.value_or(1) == 1) return;
    if (flags_)
      return ranks.place->problem("Ulysses of Megatron-DeepSpeed is not read; allowed: 1");
    if (*ranks < 1 || *ranks > most_ranks)
      return SettingProblems{json_}.problem(ranks, "is {}; allowed: 1 to {}", *ranks, most_ranks);
    config_.context_parallel = ranks;
    config_.cp_comm_type = std::string{"a2a"};
  }

  // Missing options are told together with what the file is refused for.
  bool batch() {
    JobBatch read{.whole = setting<std::int64_t>(json_, "train_batch_size"),
                  .micro = setting<std::int64_t>(json_, "train_micro_batch_size_per_gpu"),
                  .steps = setting<std::int64_t>(json_, "gradient_accumulation_steps")};
    if (!read.micro && config_.micro_batch_size) read.micro = config_.micro_batch_size;
    if (!read.whole && !read.steps && config_.global_batch_size)
      read.whole = config_.global_batch_size;
    add_options(request_, read);
    find_missing(read);
    if (missing_.any()) {
      json_.problem(missing_.sentence("FILE"));
      mark_settings();
      rest();
      return false;
    }
    const std::int64_t split = std::max<std::int64_t>(1, config_.tensor_parallel.value_or(1)) *
                               std::max<std::int64_t>(1, config_.pipeline_parallel.value_or(1)) *
                               std::max<std::int64_t>(1, config_.context_parallel.value_or(1));
    const std::int64_t replicas =
        std::max<std::int64_t>(1, request_.gpus / std::min<std::int64_t>(split, 1 << 20));
    const auto sizes = sizes_of(read, replicas, json_);
    if (!sizes) {
      mark_settings();
      rest();
      return false;
    }
    config_.micro_batch_size = Whole{sizes->micro, read.micro.place};
    config_.global_batch_size = Whole{sizes->global, read.whole.place};
    return true;
  }

  void find_missing(const JobBatch& read) {
    ImportRequest known = request_;
    // Flags of Megatron-DeepSpeed say both.
    if (config_.num_layers) known.model.emplace();
    if (config_.seq_length) known.sequence_length = 1;
    missing_.add_common(known);
    const bool auto_steps = is_auto(json_, "gradient_accumulation_steps");
    const bool auto_micro = is_auto(json_, "train_micro_batch_size_per_gpu");
    const bool open = !read.steps && (auto_steps || auto_micro);
    if (!read.micro && (!read.whole || open))
      missing_.add("--micro-batch-size 1", "train_micro_batch_size_per_gpu");
    if (!read.steps && !read.whole && auto_steps)
      missing_.add("--gradient-accumulation-steps 8", "gradient_accumulation_steps");
    if (open_format_) missing_.add("--precision bf16", "the format, bf16 or fp16");
  }

  // mark_settings() is for a job that is not read further: known keys are not unknown.
  void mark_settings() {
    for (const char* key :
         {"communication_data_type", "data_types", "zero_optimization", "optimizer"})
      static_cast<void>(json_.has(key));
    if (const auto types = section("data_types")) types->ignore_unknown();
    read_deepspeed_optimizer(json_, result_);
    const auto found = section("zero_optimization");
    if (!found) return;
    for (const char* key :
         {"stage", "overlap_comm", "reduce_bucket_size", "reduce_scatter",
          "use_multi_rank_bucket_allreduce", "contiguous_gradients", "stage3_prefetch_bucket_size",
          "prefetch_bucket_size", "stage3_param_persistence_threshold",
          "param_persistence_threshold", "stage3_max_live_parameters", "max_live_parameters",
          "stage3_max_reuse_distance", "max_reuse_distance", "sub_group_size", "mics_shard_size"})
      static_cast<void>(found->has(key));
  }

  void rest() {
    const auto found = section("zero_optimization");
    const std::int64_t stage = found ? setting<std::int64_t>(*found, "stage").value_or(0) : 0;
    judge_deepspeed_keys(json_, static_cast<int>(std::clamp<std::int64_t>(stage, 0, 3)), result_);
  }

  void formats() {
    for (const auto& [key, flag] :
         {std::pair{"bf16", &config_.bf16}, {"bfloat16", &config_.bf16}, {"fp16", &config_.fp16}}) {
      const auto found = section(key);
      if (!found) continue;
      open_format_ = is_auto(*found, "enabled") || open_format_;
      const Flag enabled = setting<bool>(*found, "enabled");
      if (enabled) *flag = enabled;
      judge_precision_keys(*found, key, result_);
    }
    const bool said = config_.bf16.value_or(false) || config_.fp16.value_or(false);
    open_format_ = open_format_ && !said && !request_.precision;
    if (request_.precision) take_precision(*request_.precision);
  }

  // take_precision() fills in what the file leaves open; the file may not say otherwise.
  void take_precision(DType asked) {
    const bool said = config_.bf16.value_or(false) || config_.fp16.value_or(false);
    for (const auto& [type, flag] :
         {std::pair{DType::bf16, &config_.bf16}, {DType::fp16, &config_.fp16}}) {
      if (!*flag)
        *flag = asked == type && !said;
      else if (**flag != (asked == type) && flag->place)
        flag->place->problem(fmt::format("{} is {}, but --precision says {}", word(type),
                                         **flag ? "enabled" : "not enabled", word(asked)));
    }
  }

  static std::optional<DType> dtype_of(const std::string& name) {
    if (name == "fp32" || name == "float32") return DType::fp32;
    if (name == "bf16" || name == "bfloat16" || name == "bfp16") return DType::bf16;
    if (name == "fp16" || name == "float16") return DType::fp16;
    return std::nullopt;
  }
  static DType dtype(const Text& name, DType fallback) {
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
    if (types) {
      const Text weight = setting<std::string>(*types, "param_dtype");
      if (weight && dtype_of(*weight) != weights)
        weight.place->problem("data_types.param_dtype: weights are modelled as bf16, fp16 say");
      if (types->has("buffer_dtype")) result_.ignored.emplace_back("data_types.buffer_dtype");
    }
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
      overlap(*found);
      stage_3(*found);
      mics(*found);
      plus_plus(*found);
      ways_of_reduction(*found);
    } else {
      old_switch();
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

  // "zero_optimization": true, as before there were stages (zero/config.py,
  // read_zero_config_deprecated).
  void old_switch() {
    Flag on;
    if (!json_.has("zero_optimization")) return;
    read_setting(json_, "zero_optimization", on);
    if (!on.value_or(false)) return;
    layout().zero_stage = 1;
    note("zero_optimization", "true is stage 1");
  }

  void bucket(const ObjectReader& from) {
    Whole size = setting<std::int64_t>(from, "reduce_bucket_size");
    if (is_auto(from, "reduce_bucket_size")) {
      size = result_.shape.hidden * result_.shape.hidden;
      note("zero_optimization.reduce_bucket_size",
           fmt::format("auto is hidden x hidden, {}, as transformers fills it in", *size));
    }
    if (!size) return;
    if (*size < 1 || *size > (1LL << 40))
      size.place->problem(fmt::format("is {}; allowed: 1 to {}", *size, 1LL << 40));
    else
      layout().bucket = Bytes{*size * bytes_of(layout().gradient_dtype)};
  }

  // A key of stage 3 under its two names.
  static Whole stage_3_setting(const ObjectReader& from, std::string_view name) {
    const Whole alias = setting<std::int64_t>(from, fmt::format("stage3_{}", name));
    const Whole plain = setting<std::int64_t>(from, name);
    return alias ? alias : plain;
  }
  static bool stage_3_auto(const ObjectReader& from, std::string_view name) {
    return is_auto(from, fmt::format("stage3_{}", name));
  }

  // So many layers as the prefetch's elements reach into.
  void stage_3(const ObjectReader& from) {
    const Whole size = stage_3_setting(from, "prefetch_bucket_size");
    const std::int64_t square = result_.shape.hidden * result_.shape.hidden;
    const std::int64_t ahead =
        stage_3_auto(from, "prefetch_bucket_size") ? square * 9 / 10 : size.value_or(50'000'000);
    const Whole kept = stage_3_setting(from, "param_persistence_threshold");
    const Whole live = stage_3_setting(from, "max_live_parameters");
    const Whole reuse = stage_3_setting(from, "max_reuse_distance");
    const Whole group = setting<std::int64_t>(from, "sub_group_size");
    for (const Whole* count : {&kept, &live, &reuse, &group})
      if (count->value_or(0) < 0)
        count->place->problem(fmt::format("is {}; allowed: 0 and more", **count));
    if (layout().zero_stage != 3) return;
    if (ahead < 0 || ahead > (1LL << 50)) {
      size.place->problem(fmt::format("is {}; allowed: 0 and more", ahead));
      return;
    }
    if (result_.shape.hidden == 0 || result_.shape.heads == 0) return;  // a problem already
    const Block block = transformer_layer(result_.shape);
    const std::int64_t layer = std::max<std::int64_t>(1, block.parameters());
    layout().prefetch_layers =
        static_cast<int>(std::min<std::int64_t>(1000, ahead / layer + (ahead % layer > 0 ? 1 : 0)));
    const std::int64_t threshold = stage_3_auto(from, "param_persistence_threshold")
                                       ? 10 * result_.shape.hidden
                                       : kept.value_or(100'000);
    note_persistence(block, threshold);
    if (live.value_or(1'000'000'000) < layer * (1 + layout().prefetch_layers))
      note("zero_optimization.stage3_max_live_parameters",
           fmt::format("is {}, less than the {} layers of {} parameters that are modelled as "
                       "gathered at a time",
                       *live, 1 + layout().prefetch_layers, layer));
    if (reuse.value_or(1'000'000'000) != 1'000'000'000)
      note("zero_optimization.stage3_max_reuse_distance",
           "gathered weights are modelled as freed behind each layer");
    if (group.value_or(1'000'000'000) < layer)
      note("zero_optimization.sub_group_size",
           "the optimizer is modelled as updating its shard in one pass");
  }

  // Below the threshold parameters stay whole on every rank: of a usual model its norms and biases.
  void note_persistence(const Block& block, std::int64_t threshold) {
    for (const ModelOp& op : block.ops)
      if (op.weights > 0 && op.kind == ModelOpKind::linear && op.weights < threshold)
        return note("zero_optimization.stage3_param_persistence_threshold",
                    fmt::format("is {}: matrices of {} parameters stay whole on every GPU, and are "
                                "modelled as sharded",
                                threshold, op.weights));
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

  // ZeRO++ (zero/config.py): of stage 3 only.
  void plus_plus(const ObjectReader& from) {
    const Flag weights = setting<bool>(from, "zero_quantized_weights");
    const Flag gradients = setting<bool>(from, "zero_quantized_gradients");
    const Whole group = setting<std::int64_t>(from, "zero_hpz_partition_size");
    const bool secondary = group.value_or(1) != 1;
    if (layout().zero_stage != 3) {
      if (weights.value_or(false)) weights.place->problem("is of ZeRO++, which is of stage 3");
      if (gradients.value_or(false)) gradients.place->problem("is of ZeRO++, which is of stage 3");
      if (secondary) group.place->problem("is of ZeRO++, which is of stage 3");
      return;
    }
    layout().quantized_weights = weights.value_or(false);
    if (gradients.value_or(false)) {
      layout().compression = GradientCompression::int4;
      layout().reduce_dtype = layout().gradient_dtype;
    }
    if (!secondary) {
      if (gradients.value_or(false))
        note("layout.compression.node_ranks",
             "gradients are reduced in one level; set it to the GPUs of a node for the two of qgZ");
      return;
    }
    if (*group < 1 || layout().replicas() % *group != 0) {
      group.place->problem(
          fmt::format("is {}; it divides the {} replicas", *group, layout().replicas()));
      return;
    }
    layout().secondary_shard = *group < layout().replicas();
    if (layout().secondary_shard) layout().node_ranks = static_cast<int>(*group);
  }

  void kernels() {
    layout().overlap_pipeline = false;
    read_deepspeed_optimizer(json_, result_);
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
    set_transformers_experts(result_);
    layout().attention = request_.has_flash_2 ? AttentionKernel::flash_2 : AttentionKernel::flash;
    layout().recompute = request_.recompute.value_or(Recompute::none);
    if (!request_.recompute)
      note("layout.recompute", "the JSON does not say what is recomputed: none (see --recompute)");
    note("framework", fmt::format("eager PyTorch kernels with flash attention{} are assumed",
                                  json_.has("optimizer") ? "" : " and AdamW"));
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
  MissingOptions missing_{request_.command.empty() ? "deepspeed" : request_.command};
  bool open_format_ = false;  // "auto"
  std::optional<AttentionKernel> attention_;
  Flag zero_bubble_, checkpoints_;
};

}  // namespace

Imported import_deepspeed(const Document& json, const Document* flags,
                          const ImportRequest& request) {
  const ObjectReader root = json.root_object();
  std::optional<ObjectReader> flag_root;
  if (flags) flag_root = flags->root_object();
  Imported result = DeepSpeedReader{root, flag_root ? &*flag_root : nullptr, request}.read();
  if (flags) flags->finish();
  finish_import(json, root, result);
  return result;
}

}  // namespace sim
