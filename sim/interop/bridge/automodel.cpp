// Recipes of NeMo Automodel: YAML of a model of the Hugging Face Hub under FSDP2 or DDP.
//
// Names, defaults and rules: NVIDIA-NeMo/Automodel at 36044ad3: components/distributed/config.py,
// parallelizer.py (layers of a pipeline stay gathered, the last layer too), pipelining/,
// components/training/step_scheduler.py, components/_peft/lora.py, components/quantization/fp8.py,
// components/loss/, recipes/llm/train_ft.py, _transformers/auto_model.py (torch_dtype),
// _transformers/infrastructure.py and components/moe/ (experts: parallelizer.py, fsdp_mixin.py).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/interop/bridge/automodel_backend.hpp"
#include "sim/interop/hub_models.hpp"
#include "sim/interop/torchtitan/torchtitan.hpp"
#include "sim/interop/trainers/experts_of_trainer.hpp"
#include "sim/interop/trainers/trainer_job.hpp"
#include "sim/model/transformer.hpp"
#include "sim/scripts/shell/shell_text.hpp"

namespace sim {
namespace {

struct LinearName {
  std::string_view name;
  LoraModule module;
};
constexpr std::array linears{LinearName{"q_proj", LoraModule::linear_qkv},
                             LinearName{"k_proj", LoraModule::linear_qkv},
                             LinearName{"v_proj", LoraModule::linear_qkv},
                             LinearName{"qkv_proj", LoraModule::linear_qkv},
                             LinearName{"o_proj", LoraModule::linear_proj},
                             LinearName{"gate_proj", LoraModule::linear_fc1},
                             LinearName{"up_proj", LoraModule::linear_fc1},
                             LinearName{"gate_up_proj", LoraModule::linear_fc1},
                             LinearName{"down_proj", LoraModule::linear_fc2}};

class AutomodelReader {
 public:
  AutomodelReader(const Document& yaml, const ImportRequest& request)
      : yaml_{yaml}, request_{request}, root_{yaml.root_object()} {}

  Imported read() {
    job_.program = "Automodel";
    job_.own_experts = true;
    read_setting(root_, "recipe", recipe_);
    if (recipe_ && (*recipe_).find("Recipe") == std::string::npos)
      recipe_.place->problem(
          fmt::format("is '{}'; expected the name of a recipe's class, as "
                      "TrainFinetuneRecipeForNextTokenPrediction",
                      (*recipe_).substr(0, 80)));
    model();
    distributed();
    batch();
    sequence();
    optimizer();
    loss();
    compiler();
    adapters();
    gpus();
    transformers_kernels();
    static_cast<void>(root_.has("fp8"));  // read at the end, beside what is sharded
    judge_keys(root_, known_keys("automodel", "top"), "", result_);
    note_unknown_keys(root_, "", result_);
    MissingOptions missing{"automodel"};
    scenario_of_trainer(job_, request_, missing, root_, result_);
    if (!missing.any()) finish();
    yaml_.finish();
    return result_;
  }

 private:
  Layout& layout() { return result_.layout; }
  void note(const char* key, std::string what) { result_.notes.push_back({key, std::move(what)}); }

  // "none" stands for what is left of the GPUs.
  Whole degree(const ObjectReader& from, const char* key) {
    Whole count;
    const std::optional<ValueReader> value = from.find(key);
    if (!value || value->peek_text().value_or("") == "none") return count;
    read_setting(from, key, count);
    return count;
  }

  // Without a word, or with auto, weights are loaded as they are stored, in bf16.
  void model() {
    const auto found = section_at(root_, "model");
    Text name, type;
    if (found) {
      read_setting(*found, "pretrained_model_name_or_path", name);
      read_config(*found, name);
      read_setting(*found, "torch_dtype", type);
      if (!type) read_setting(*found, "dtype", type);
      read_setting(*found, "attn_implementation", attention_);
      read_setting(*found, "force_hf", transformers_);
      read_setting(*found, "use_liger_kernel", liger_);
      model_class(*found);
      read_setting(*found, "num_nextn_predict_layers", depths_);
      read_setting(*found, "mtp_use_repeated_layer", repeats_depth_);
      backend_ = read_automodel_backend(*found, result_);
      judge_keys(*found, known_keys("automodel", "model"), "model.", result_);
    }
    take_hub_model(name, request_, result_);
    token_prediction();
    std::string word = type.value_or("auto");
    word = word.substr(word.rfind('.') + 1);  // torch.bfloat16
    if (word == "float32" || word == "fp32") return;
    job_.weights = DType::bf16;
    if (word != "auto" && word != "bf16" && word != "bfloat16")
      type.place->problem(
          fmt::format("is '{}'; modelled: auto, bfloat16, float32", word.substr(0, 80)));
  }

  // Which class of its own takes the model's name decides; another program's is not read.
  void model_class(const ObjectReader& from) {
    Text target;
    read_setting(from, "_target_", target);
    if (!target) return;
    const bool known = (*target).find("AutoModel") != std::string::npos ||
                       (*target).find("ForCausalLM") != std::string::npos;
    if (known)
      result_.ignored.emplace_back("model._target_");
    else
      result_.notes.push_back({"model._target_",
                               fmt::format("{} is not read: forecast as the model of its name",
                                           (*target).substr(0, 80)),
                               true});
  }

  // Kernels of dense models (_transformers/kernel_patches.py: DEFAULT_ATTN_IMPLEMENTATION in a
  // container with flash-attn, _apply_preload_overrides, _patch_liger_kernel; auto_model.py,
  // use_liger_kernel): FlashAttention-2, but scaled_dot_product_attention over context ranks;
  // transformers' own classes (force_hf) with Liger's kernels on unsplit tensors.
  void transformers_kernels() {
    const bool whole = job_.tensor.value_or(1) == 1 && job_.context.value_or(1) == 1;
    if (transformers_.value_or(false) && whole && liger_.value_or(true))
      job_.liger = {.norm = true, .rotary = true, .gate = true};
    const std::string asked = attention_.value_or("flash_attention_2");
    constexpr std::array<std::string_view, 6> known{
        "flash_attention_2", "flash_attention_3", "sdpa", "eager", "flex_attention", "te"};
    if (std::ranges::find(known, asked) == known.end())
      attention_.place->problem(
          fmt::format("is '{}'; allowed: flash_attention_2, "
                      "flash_attention_3, sdpa, eager, flex_attention",
                      asked.substr(0, 80)));
    if (asked == "flash_attention_2" && job_.context.value_or(1) == 1)
      job_.attention = TrainerAttention::flash_2;
    else if (asked == "flash_attention_3")
      job_.attention = TrainerAttention::flash_3;
  }

  // Depths that the classes with multi-token prediction build (components/models/common/mtp).
  void token_prediction() {
    if (!depths_ || !request_.model) return;
    TransformerShape& shape = *request_.model;
    constexpr std::int64_t most = 16;
    if (*depths_ < 0 || *depths_ > most)
      return depths_.place->problem(fmt::format("is {}; allowed: 0 to {}", *depths_, most));
    shape.mtp_layers = *depths_;
    shape.mtp_repeated = repeats_depth_.value_or(false);
    if (const std::string problem = mtp_problem(shape); !problem.empty()) {
      shape.mtp_layers = 0;
      note("model.num_nextn_predict_layers",
           "left out: the model file does not say of which layers (mtp_pattern)");
    }
  }

  void read_config(const ObjectReader& model, Text& name) {
    const std::optional<ValueReader> config = model.find("config");
    if (!config) return;
    if (!config->is_object()) {
      if (name)
        result_.ignored.emplace_back("model.config");
      else
        read_setting(model, "config", name);
      return;
    }
    const ObjectReader object = config->object();
    if (!name) read_setting(object, "pretrained_model_name_or_path", name);
    if (object.has("_target_")) result_.ignored.emplace_back("model.config._target_");
    judge_keys(object, known_keys("automodel", "model"), "model.config.", result_);
  }

  void distributed() {
    const auto found = section_at(root_, "distributed");
    job_.engine = TrainerEngine::fsdp;
    job_.fsdp.version = 2;
    job_.fsdp.wrap = std::string{"TRANSFORMER_BASED_WRAP"};
    if (!found) return;
    strategy(*found);
    data_ = degree(*found, "dp_size");
    replicate_ = degree(*found, "dp_replicate_size");
    job_.tensor = degree(*found, "tp_size");
    job_.context = degree(*found, "cp_size");
    job_.pipeline = degree(*found, "pp_size");
    expert_ranks_ = degree(*found, "ep_size");
    read_setting(*found, "sequence_parallel", job_.sequence_parallel);
    if (!job_.sequence_parallel) job_.sequence_parallel = false;
    Flag deferred;
    read_setting(*found, "defer_fsdp_grad_sync", deferred);
    job_.syncs_each = !deferred.value_or(true);
    reshard(*found);
    checkpointing(*found);
    if (const auto pipeline = section_at(*found, "pipeline")) stages(*pipeline);
    judge_keys(*found, known_keys("automodel", "distributed"), "distributed.", result_);
    note_unknown_keys(*found, "distributed.", result_);
  }

  void strategy(const ObjectReader& from) {
    Text word, target;
    read_setting(from, "strategy", word);
    read_setting(from, "_target_", target);
    const Text& said = word ? word : target;
    if (word && target) result_.ignored.emplace_back("distributed._target_");
    std::string name = said.value_or("fsdp2");
    name = name.substr(name.rfind('.') + 1);
    Whole stage;
    read_setting(from, "zero_dp_strategy", stage);
    const bool megatron =
        name == "megatron_fsdp" || name == "MegatronFSDPManager" || name == "MegatronFSDPConfig";
    if (stage && !megatron) result_.ignored.emplace_back("distributed.zero_dp_strategy");
    if (name == "fsdp2" || name == "FSDP2Manager" || name == "FSDP2Config") return;
    if (name == "ddp" || name == "DDPManager" || name == "DDPConfig") {
      job_.engine = TrainerEngine::ddp;
    } else if (megatron) {
      if (stage.value_or(3) != 3) stage.place->problem(fmt::format("is {}; modelled: 3", *stage));
      note("distributed.strategy", "Megatron-FSDP is modelled as PyTorch's FSDP2");
    } else {
      said.place->problem(
          fmt::format("is '{}'; modelled: fsdp2, ddp, megatron_fsdp", name.substr(0, 80)));
    }
  }

  // With expert parallelism the parallelizer of experts has a setting of its own.
  void reshard(const ObjectReader& from) {
    Flag asked, of_experts;
    read_setting(from, "reshard_after_forward", asked);
    if (const auto found = section_at(from, "moe")) {
      read_setting(*found, "reshard_after_forward", of_experts);
      read_setting(*found, "wrap_outer_model", wraps_model_);
      if (found->has("_target_")) result_.ignored.emplace_back("distributed.moe._target_");
      judge_keys(*found, known_keys("automodel", "moe"), "distributed.moe.", result_);
      note_unknown_keys(*found, "distributed.moe.", result_);
    }
    const bool otherwise =
        expert_ranks_.value_or(1) > 1 ? of_experts.value_or(false) : job_.pipeline.value_or(1) <= 1;
    job_.fsdp.reshard = Text{asked.value_or(otherwise) ? "true" : "false", asked.place};
  }

  void checkpointing(const ObjectReader& from) {
    Text asked;
    read_setting(from, "activation_checkpointing", asked);
    const std::string word = asked.value_or("false");
    const bool full = word == "true" || word == "True" || word == "full";
    selective_ = word == "selective";
    job_.recompute = Flag{full, asked.place};
    if (!full && !selective_ && word != "false" && word != "False")
      asked.place->problem(
          fmt::format("is '{}'; allowed: true, false, full, selective", word.substr(0, 80)));
  }

  void stages(const ObjectReader& from) {
    read_setting(from, "pp_schedule", job_.schedule);
    job_.pipeline_micro = degree(from, "pp_microbatch_size");
    job_.layers_per_stage = degree(from, "layers_per_stage");
    read_setting(from, "round_virtual_stages_to_pp_multiple", job_.round_stages);
    judge_keys(from, known_keys("automodel", "pipeline"), "distributed.pipeline.", result_);
  }

  void batch() {
    const auto found = section_at(root_, "step_scheduler");
    if (!found) return;
    read_setting(*found, "global_batch_size", job_.batch.whole);
    read_setting(*found, "local_batch_size", job_.batch.micro);
    judge_keys(*found, anything, "step_scheduler.", result_);
  }

  // That of packs, or of the data set where it says one.
  void sequence() {
    if (const auto packed = section_at(root_, "packed_sequence")) {
      Whole size;
      read_setting(*packed, "packed_sequence_size", size);
      if (size.value_or(0) < 0)
        size.place->problem(fmt::format("is {}; allowed: 0 and more", *size));
      if (size.value_or(0) > 0) {
        job_.sequence_length = size;
        note("packed_sequence",
             "the lengths of packed sequences are not in the file: layout.packed_length");
      }
      judge_keys(*packed, anything, "packed_sequence.", result_);
    }
    const std::optional<ObjectReader> data = section_at(root_, "dataset");
    if (!data) return;
    const ObjectReader& from = *data;
    for (const char* key : {"seq_len", "seq_length", "max_seq_length"}) {
      Whole size;
      read_setting(from, key, size);
      if (!size) continue;
      if (job_.sequence_length)
        result_.ignored.push_back(fmt::format("dataset.{}", key));  // the first counts
      else
        job_.sequence_length = size;
    }
    judge_keys(from, anything, "dataset.", result_);
  }

  void optimizer() {
    const auto found = section_at(root_, "optimizer");
    if (!found) return;
    Text target;
    Flag fused, masters;
    read_setting(*found, "_target_", target);
    read_setting(*found, "fused", fused);
    read_setting(*found, "master_weights", masters);
    std::string name = target.value_or("torch.optim.AdamW");
    const bool torch = name.starts_with("torch.optim.");
    name = name.substr(name.rfind('.') + 1);
    if (name == "FusedAdam")
      masters_ = masters.value_or(false);
    else if (torch && (name == "Adam" || name == "AdamW"))
      job_.multi_tensor = !fused.value_or(false);
    else if (torch && name == "SGD")
      job_.optimizer = OptimizerKind::sgd;
    else
      target.place->problem(
          fmt::format("the optimizer {} is not modelled; modelled: torch.optim.Adam, AdamW, SGD, "
                      "Transformer Engine's FusedAdam",
                      name.substr(0, 80)));
    Flag remainders;
    read_setting(*found, "store_param_remainders", remainders);
    remainders_ = remainders.value_or(false);
    judge_keys(*found, anything, "optimizer.", result_);
  }

  void loss() {
    const auto found = section_at(root_, "loss_fn");
    if (!found) return;
    Text target;
    read_setting(*found, "_target_", target);
    std::string name = target.value_or("MaskedCrossEntropy");
    name = name.substr(name.rfind('.') + 1);
    Flag widens;
    read_setting(*found, "fp32_upcast", widens);
    if (name == "TEParallelCrossEntropy")
      loss_ = LossForm::in_place;
    else if (name == "MaskedCrossEntropy" && !widens.value_or(true))
      loss_ = LossForm::keeps_logits;  // cross_entropy of 16-bit logits
    else if (name == "FusedLinearCrossEntropy" && job_.tensor.value_or(1) == 1)
      logits_in_parts();
    else if (name != "MaskedCrossEntropy" && name != "CrossEntropyLoss")
      result_.notes.push_back(
          {"loss_fn",
           fmt::format("{}: modelled as PyTorch's cross entropy, which keeps all logits",
                       name.substr(0, 80)),
           true});
    judge_keys(*found, anything, "loss_fn.", result_);
  }

  // cut_cross_entropy, whose logits exist in tiles alone (components/loss/linear_ce.py).
  void logits_in_parts() {
    loss_ = LossForm::chunked;
    note("loss_fn",
         "FusedLinearCrossEntropy: modelled as Liger's, which keeps the gradients; it computes the "
         "logits again for the backward pass");
  }

  void compiler() {
    bool compiled = false;
    if (const auto found = section_at(root_, "compile")) {
      Flag on;
      read_setting(*found, "enabled", on);
      compiled = on.value_or(false);
      judge_keys(*found, anything, "compile.", result_);
    }
    if (const auto found = section_at(root_, "distributed")) {
      Flag on;
      read_setting(*found, "enable_compile", on);
      compiled = compiled || on.value_or(false);
    }
    compiled_ = compiled;
  }

  // Each decoder layer as a whole (components/distributed/parallelizer.py,
  // _apply_per_layer_compile; components/utils/compile_utils.py): what stands between products and
  // attention is fused. The parallelizer of experts compiles nothing.
  void compiled_layers() {
    if (!compiled_ || expert_ranks_.value_or(1) > 1) return;
    fuse_layers(result_.framework);
  }

  // The patterns are of whole names ("*_proj"); without any, all linears.
  void adapters() {
    const auto found = section_at(root_, "peft");
    const auto bits = section_at(root_, "quantization");
    if (bits) {
      Flag four, eight;
      read_setting(*bits, "load_in_4bit", four);
      read_setting(*bits, "load_in_8bit", eight);
      if (eight.value_or(false))
        eight.place->problem("frozen weights in 8 bits are not modelled; modelled: load_in_4bit");
      if (four.value_or(false) && !found)
        four.place->problem("weights in 4 bits are modelled beside adapters");
      if (four.value_or(false)) job_.adapters.frozen_format = FrozenFormat::nf4;
      judge_keys(*bits, anything, "quantization.", result_);
    }
    if (!found) return;
    Text target;
    read_setting(*found, "_target_", target);
    if (target && !(*target).ends_with("PeftConfig"))
      target.place->problem(fmt::format("the adapters of {} are not modelled; modelled: PeftConfig",
                                        (*target).substr(0, 80)));
    job_.adapters.lora_rank =
        found->has("dim") ? static_cast<int>(found->integer("dim", {1, 65'536})) : 8;
    Flag all;
    Text names;
    Text without;
    read_setting(*found, "match_all_linear", all);
    read_setting(*found, "target_modules", names);
    read_setting(*found, "exclude_modules", without);
    if (!all.value_or(false) && names) modules(names);
    judge_keys(*found, known_keys("automodel", "peft"), "peft.", result_);
    if (without) note("peft.exclude_modules", "adapters are modelled on them, too, where they fit");
  }

  void modules(const Text& names) {
    std::vector<LoraModule> wanted;
    std::string pattern;
    for (const char c : *names + " ") {
      if (c != ' ' && c != ',') {
        pattern += c;
        continue;
      }
      if (!pattern.empty()) add_modules(pattern, wanted);
      pattern.clear();
    }
    if (adapts_experts_) {
      job_.adapters.expert_adapters = ExpertAdapters::each;
      for (const LoraModule module : {LoraModule::linear_fc1, LoraModule::linear_fc2})
        if (std::ranges::find(wanted, module) == wanted.end()) wanted.push_back(module);
    }
    if (wanted.empty())
      names.place->problem(
          fmt::format("'{}' fits no linear that is known: q_proj, k_proj, v_proj, o_proj, "
                      "gate_proj, up_proj, down_proj",
                      (*names).substr(0, 80)));
    else
      job_.adapters.lora_modules = wanted;
  }

  // Experts are one module of all of their weights (components/_peft/lora.py, patch_moe_module).
  void add_modules(const std::string& pattern, std::vector<LoraModule>& wanted) {
    if (pattern.size() > 200) return;
    for (const std::string_view name : {"experts", "model.layers.0.mlp.experts"})
      adapts_experts_ = adapts_experts_ || matches_pattern(name, pattern);
    for (const LinearName& linear : linears) {
      // Full names are "model.layers.0.self_attn.q_proj".
      const bool fits = matches_pattern(linear.name, pattern) ||
                        matches_pattern("." + std::string{linear.name}, pattern);
      if (fits && std::ranges::find(wanted, linear.module) == wanted.end())
        wanted.push_back(linear.module);
    }
  }

  // --gpus, or the degrees where all are numbers, or the nodes of a benchmark.
  void gpus() {
    Whole nodes;
    if (const auto found = section_at(root_, "benchmark")) {
      read_setting(*found, "num_nodes", nodes);
      judge_keys(*found, anything, "benchmark.", result_);
    }
    const std::int64_t inner =
        job_.tensor.value_or(1) * job_.context.value_or(1) * job_.pipeline.value_or(1);
    constexpr std::int64_t most = 1 << 20;
    const bool sound = inner >= 1 && inner <= most;
    for (const Whole* count : {&data_, &replicate_})
      if (count->value_or(1) < 1 || count->value_or(1) > most)
        count->place->problem(fmt::format("is {}; allowed: 1 to {}, none", **count, most));
    if (data_ && sound && *data_ >= 1 && *data_ <= most && *data_ * inner <= most) {
      if (request_.gpus == 0) request_.gpus = static_cast<int>(*data_ * inner);
    } else if (nodes && *nodes >= 1 && *nodes <= most / 256 && request_.gpus == 0 &&
               request_.gpus_per_node > 0 && request_.gpus_per_node <= 256) {
      request_.gpus = static_cast<int>(*nodes) * request_.gpus_per_node;
      note("gpus", fmt::format("{}: {} nodes of the benchmark", request_.gpus, *nodes));
    }
    if (!replicate_ || *replicate_ <= 1 || !sound || request_.gpus % inner != 0) return;
    const std::int64_t data = request_.gpus / inner;
    if (*replicate_ > data || data % *replicate_ != 0)
      return replicate_.place->problem(
          fmt::format("is {}, which does not divide {} data-parallel GPUs", *replicate_, data));
    job_.replicate = replicate_;
    job_.shard = Whole{data / *replicate_, replicate_.place};
  }

  // FSDP2 reduces in fp32 and casts to the format of the weights. fp32 weights are the masters of
  // the bf16 ones that are gathered.
  void finish() {
    const bool sharded = layout().zero_stage == 3;
    if (job_.weights == DType::fp32 && sharded) {
      layout().compute_dtype = layout().activation_dtype = DType::bf16;
      layout().gradient_dtype = DType::bf16;
      layout().master_weights = true;
      layout().moment_dtype = DType::fp32;
    }
    layout().reduce_dtype = sharded ? DType::fp32 : layout().gradient_dtype;
    std::erase_if(result_.notes, [](const Note& one) { return one.key == "mixed_precision"; });
    if (masters_ && job_.weights != DType::fp32) {
      layout().master_weights = true;
      layout().moment_dtype = DType::fp32;
      if (remainders_) layout().master_format = MasterFormat::remainders;
    }
    if (selective_) layout().recompute = Recompute::operators;
    if (loss_) result_.framework.loss = *loss_;
    kernels();
    compiled_layers();
    float8();
    layout().lora_rank = job_.adapters.lora_rank;
    if (layout().trains_adapters()) {
      layout().lora_modules = job_.adapters.lora_modules;
      layout().frozen_format = job_.adapters.frozen_format;
      layout().expert_adapters = job_.adapters.expert_adapters;
      keep_adapters_of_model(result_);
    }
    finish_import(yaml_, root_, result_);
  }

  void kernels() {
    const bool own = runs_own_class(backend_, result_.shape);
    if (own) set_automodel_kernels(backend_, expert_ranks_, request_.has_flash_2, root_, result_);
    // It reads keys and values of fewer heads as they are.
    if (!own && job_.attention != TrainerAttention::sdpa)
      result_.framework.key_heads = KernelForm::fused;
    if (result_.shape.experts.count == 0 && expert_ranks_.value_or(1) != 1)
      expert_ranks_.place->problem(
          fmt::format("is {}, but {} has no experts", *expert_ranks_, result_.shape.name));
    Execution& runs = result_.framework.execution;
    units();
    // MoEFSDPSyncMixin, prepare_for_grad_accumulation.
    runs.keeps_gathered = own && runs.accumulates_whole && backend_.keeps_units.value_or(false);
    // recipes/llm/benchmark.py: a timer around each local batch, which waits for the device.
    runs.waits_for_batches = recipe_.value_or("").find("Benchmarking") != std::string::npos;
    const bool copies = layout().shard_group > 0 && layout().shard_group < layout().replicas();
    if (copies && layout().expert_parallel > 1)
      note("distributed.dp_replicate_size",
           "Automodel shards experts over the copies, too; modelled: every copy has all of them");
  }

  // When gradients of FSDP's units are reduced (components/moe/fsdp_mixin.py,
  // patched_backward_maybe_with_nosync; components/distributed/utils.py, get_sync_ctx; PyTorch,
  // torch/distributed/pipelining/stage.py). A model that is a unit as a whole: behind every run of
  // the pipeline, or the last micro-batch. One that is not has the switches of
  // enable_fsdp_optimizations, behind the last run or micro-batch, or none: behind every one.
  void units() {
    Execution& runs = result_.framework.execution;
    const bool experts = result_.shape.experts.count > 0 && expert_ranks_.value_or(1) > 1;
    const bool whole = !experts || wraps_model_.value_or(true);
    const bool switched = backend_.keeps_units.value_or(false);
    if (layout().pipeline_parallel == 1) {
      if (!whole && !switched) runs.accumulates_whole = false;
      return;
    }
    runs.holds_units = whole ? !job_.syncs_each : switched || job_.syncs_each;
    runs.holds_over_runs = !whole && runs.holds_units;
  }

  // torchao's, as under torchtitan.
  void float8() {
    const auto found = section_at(root_, "fp8");
    if (!found) return;
    Flag on, gathers, at_once;
    Text recipe;
    read_setting(*found, "enabled", on);
    read_setting(*found, "recipe_name", recipe);
    read_setting(*found, "enable_fsdp_float8_all_gather", gathers);
    read_setting(*found, "precompute_float8_dynamic_scale_for_fsdp", at_once);
    if (!on.value_or(false)) {
      if (recipe) result_.ignored.emplace_back("fp8.recipe_name");
      return judge_keys(*found, anything, "fp8.", result_);
    }
    judge_keys(*found, known_keys("automodel", "fp8"), "fp8.", result_);
    const std::optional<EightBit> software = torchao_software(recipe.value_or("tensorwise"));
    if (!software)
      return recipe.place->problem(fmt::format(
          "is '{}'; modelled: tensorwise, rowwise, rowwise_with_gw_hp", (*recipe).substr(0, 80)));
    layout().compute_dtype = DType::fp8;
    result_.framework.execution.eight_bit = *software;
    if (!gathers.value_or(false) || layout().zero_stage != 3) return;
    if (scales_rows(*software))
      return gathers.place->problem("torchao gathers in 8 bits with the recipe tensorwise");
    layout().eight_bit_parameters = true;
    if (!at_once.value_or(false))
      note("fp8.precompute_float8_dynamic_scale_for_fsdp",
           "off: an all-reduce for the scale of every weight, which is not modelled");
  }

  const Document& yaml_;
  ImportRequest request_;
  const ObjectReader root_;
  TrainerJob job_;
  Imported result_;
  Whole data_, replicate_, expert_ranks_;
  AutomodelBackend backend_;
  Text recipe_;
  Flag wraps_model_;  // wrap_outer_model
  Whole depths_;      // num_nextn_predict_layers
  Flag repeats_depth_;
  Text attention_;             // attn_implementation
  Flag transformers_, liger_;  // force_hf, use_liger_kernel
  bool adapts_experts_ = false, compiled_ = false;
  bool selective_ = false, masters_ = false, remainders_ = false;
  std::optional<LossForm> loss_;
};

}  // namespace

Imported import_automodel(const Document& yaml, const ImportRequest& request) {
  return AutomodelReader{yaml, request}.read();
}

}  // namespace sim
