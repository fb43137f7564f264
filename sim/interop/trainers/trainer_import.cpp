// Arguments of trainers that wrap Accelerate: TRL and transformers (TrainingArguments), axolotl.
// They have hundreds of arguments; those are read that choose the parallelism, the batch and the
// formats.
//
// Names: huggingface/transformers src/transformers/training_args.py (commit fd798335), fsdp,
// fsdp_config, deepspeed, optim; axolotl-ai-cloud/axolotl src/axolotl/utils/schemas/config.py
// (commit 70be5461) and fsdp.py (commit 06dcd85d); huggingface/trl trl/trainer/sft_config.py
// (max_length, before it max_seq_length).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "sim/base/rounding.hpp"
#include "sim/interop/hub_models.hpp"
#include "sim/interop/trainers/experts_of_trainer.hpp"
#include "sim/interop/trainers/trainer_job.hpp"

namespace sim {
namespace {

constexpr std::string_view other_losses = "a loss over other models or samples is not modelled";

// transformers at 005edacb, training_args.py, OptimizerNames, and trainer.py; axolotl at 067b021c,
// core/builders/base.py (ao_adamw_fp8).
struct TrainerOptimizer {
  std::string_view name;
  OptimizerKind kind = OptimizerKind::adam;
  bool multi_tensor = false;
  StateFormat states = StateFormat::plain;
};
constexpr auto adam = OptimizerKind::adam, lion = OptimizerKind::lion,
               ademamix = OptimizerKind::ademamix;
constexpr auto bits_32 = StateFormat::bitsandbytes_32bit, bits_8 = StateFormat::bitsandbytes_8bit;
constexpr std::array trainer_optimizers{
    TrainerOptimizer{"adamw_torch_fused"},
    TrainerOptimizer{"adamw_apex_fused"},
    TrainerOptimizer{"adamw_torch", OptimizerKind::adam, true},
    TrainerOptimizer{"adamw_hf", OptimizerKind::adam, true},
    TrainerOptimizer{"paged_adamw_32bit", adam, false, bits_32},  // pages only what finds no room
    TrainerOptimizer{"paged_adamw", adam, false, bits_32},
    TrainerOptimizer{"adamw_8bit", adam, false, bits_8},
    TrainerOptimizer{"adamw_bnb_8bit", adam, false, bits_8},
    TrainerOptimizer{"paged_adamw_8bit", adam, false, bits_8},
    TrainerOptimizer{"adamw_torch_8bit", adam, false, StateFormat::torchao_8bit},
    TrainerOptimizer{"adamw_torch_4bit", adam, false, StateFormat::torchao_4bit},
    TrainerOptimizer{"ao_adamw_fp8", adam, false, StateFormat::torchao_fp8},
    TrainerOptimizer{"sgd", OptimizerKind::sgd, true},
    TrainerOptimizer{"adafactor", OptimizerKind::adafactor},
    TrainerOptimizer{"lion_32bit", lion, false, bits_32},
    TrainerOptimizer{"paged_lion_32bit", lion, false, bits_32},
    TrainerOptimizer{"lion_8bit", lion, false, bits_8},
    TrainerOptimizer{"paged_lion_8bit", lion, false, bits_8},
    TrainerOptimizer{"ademamix", ademamix, false, bits_32},
    TrainerOptimizer{"paged_ademamix_32bit", ademamix, false, bits_32},
    TrainerOptimizer{"ademamix_8bit", ademamix, false, bits_8},
    TrainerOptimizer{"paged_ademamix_8bit", ademamix, false, bits_8},
};

// transformers at 005edacb, integrations/; LLaMA-Factory at ff6d4d12, extras/constants.py,
// AttentionFunction; axolotl at 067b021c, where flash_attn is a switch.
constexpr std::array<std::string_view, 18> attentions{"sdpa",
                                                      "eager",
                                                      "flash_attention_2",
                                                      "flash_attention_3",
                                                      "flash_attention_4",
                                                      "fa2",
                                                      "fa3",
                                                      "flex_attention",
                                                      "disabled",
                                                      "auto",
                                                      "true",
                                                      "false",
                                                      "True",
                                                      "False",
                                                      "sage",
                                                      "flash",
                                                      "xformers",
                                                      "paged_attention"};

class TrainerReader {
 public:
  TrainerReader(const Document& yaml, const Document* accelerate, const std::string& folder,
                const ImportRequest& request)
      : yaml_{yaml}, folder_{folder}, request_{request}, root_{yaml.root_object()} {
    if (accelerate == nullptr) return;
    started_ = read_accelerate_job(*accelerate, result_);
    job_ = started_->job;
  }

  Imported read() {
    batch();
    formats();
    model();
    stage();
    checkpointing();
    parallelism();
    read_peft_of_trainer(root_, job_, result_);
    optimizer();
    job_.liger = read_liger(root_);
    compiler();
    loss();
    plugins();
    const Text file = deepspeed_file();
    sharding();
    factory_sections();
    attention();
    packing();
    first("tiled_mlp", {}, tiled_);
    first("tiled_mlp_num_shards", {}, tiles_);
    first("chunked_cross_entropy", {}, compiled_loss_);
    first("chunked_cross_entropy_num_chunks", {}, loss_parts_);
    judge_keys(root_, known_keys("trainer", "keys"), "", result_);
    leave_rest();
    const bool started_so = started_ && started_->job.engine == TrainerEngine::deepspeed;
    return file || started_so ? deepspeed(file) : torch();
  }

 private:
  template <class Value>
  void first(const char* name, std::initializer_list<const char*> others, Value& into) {
    if (root_.has(name)) read_setting(root_, name, into);
    for (const char* other : others) {
      if (!root_.has(other)) continue;
      if (into)
        result_.ignored.emplace_back(other);  // the first counts
      else
        read_setting(root_, other, into);
    }
  }
  template <std::size_t N>
  static void check_word(const Text& setting, const std::array<std::string_view, N>& known) {
    if (!setting || std::ranges::find(known, *setting) != known.end()) return;
    setting.place->problem(
        fmt::format("is '{}'; allowed: {}", (*setting).substr(0, 80), fmt::join(known, ", ")));
  }

  void batch() {
    first("per_device_train_batch_size", {"micro_batch_size"}, job_.batch.micro);
    first("gradient_accumulation_steps", {}, job_.batch.steps);
    first("sequence_len", {"max_length", "max_seq_length", "cutoff_len", "model_max_length"},
          job_.sequence_length);
  }

  // bf16: true is mixed precision, "auto" that where the GPU has it, "full" weights of that format
  // (axolotl); without, weights train as they are loaded.
  void formats() {
    for (const char* key : {"bf16", "fp16"}) {
      Text on;
      first(key, {}, on);
      check_word(on,
                 std::array<std::string_view, 6>{"true", "false", "auto", "full", "True", "False"});
      const std::string word = on.value_or("false");
      const bool yes = word == "true" || word == "True" || word == "auto";
      if (word == "full") job_.weights = key[0] == 'b' ? DType::bf16 : DType::fp16;
      if (yes) job_.mixed = Text{std::string{key}, on.place};
    }
    Text loaded;
    first("torch_dtype", {"dtype"}, loaded);
    if (loaded.value_or("").starts_with("torch.")) loaded.value->erase(0, 6);
    check_word(loaded, std::array<std::string_view, 7>{"auto", "bfloat16", "float16", "float32",
                                                       "bf16", "fp16", "fp32"});
    const std::string format = loaded.value_or("");
    if (format == "bfloat16" || format == "bf16") job_.weights = DType::bf16;
    if (format == "float16" || format == "fp16") job_.weights = DType::fp16;
    // LLaMA-Factory trains 16-bit weights so; else it makes them fp32 (model/adapter.py,
    // pure_bf16).
    Flag pure;
    first("pure_bf16", {}, pure);
    if (pure.value_or(false)) job_.weights = DType::bf16;
    Flag tf32;
    first("tf32", {}, tf32);
    job_.tf32 = tf32.value_or(false);
  }

  void optimizer() {
    Text name;
    first("optim", {"optimizer"}, name);
    if (!name) return;
    const auto row = std::ranges::find_if(
        trainer_optimizers, [&](const TrainerOptimizer& one) { return one.name == *name; });
    if (row == trainer_optimizers.end()) {
      name.place->problem(
          fmt::format("the optimizer {} is not modelled; modelled: adamw_torch, "
                      "adamw_torch_fused, adamw_torch_8bit, adamw_torch_4bit, ao_adamw_fp8, "
                      "adamw_bnb_8bit, paged_adamw_32bit, lion, ademamix (32bit, 8bit), adafactor, "
                      "sgd",
                      (*name).substr(0, 80)));
      return;
    }
    job_.optimizer = row->kind;
    job_.multi_tensor = row->multi_tensor;
    job_.states = row->states;
    if ((*name).starts_with("paged_"))
      result_.notes.push_back({"optim",
                               "moments are modelled on the device; paged ones go to the "
                               "host where they find no room"});
  }

  // torch_compile_backend switches it on, too (training_args.py); axolotl has "auto", which is on
  // where PyTorch can (core/builders/base.py).
  void compiler() {
    Text asked, backend;
    first("torch_compile", {}, asked);
    first("torch_compile_backend", {}, backend);
    check_word(asked, std::array<std::string_view, 5>{"true", "false", "auto", "True", "False"});
    const std::string word = asked.value_or(backend ? "true" : "false");
    if (word == "false" || word == "False") return;
    const std::string name = backend.value_or("inductor");
    if (name == "inductor")
      job_.compiled = true;
    else if (name != "eager" && name != "aot_eager")
      backend.place->problem(
          fmt::format("is '{}'; modelled: inductor, eager, aot_eager", name.substr(0, 80)));
  }

  // TRL (trainer/sft_config.py): "chunked_nll" is the same sum over the logits of a part of the
  // tokens at a time, which are made again backward.
  void loss() {
    Text name;
    first("loss_type", {}, name);
    if (name.value_or("nll") == "chunked_nll")
      chunks_loss_ = true;
    else if (name.value_or("nll") != "nll")
      name.place->problem(fmt::format("is '{}': {}; modelled: nll, chunked_nll",
                                      (*name).substr(0, 80), other_losses));
  }

  // axolotl's: Liger's flags say what of it runs.
  void plugins() {
    Text names;
    first("plugins", {}, names);
    if (!names) return;
    std::string rest, one;
    for (const char c : *names + " ") {
      if (c != ' ' && c != ',') {
        one += c;
        continue;
      }
      if (!one.empty() && one.find("LigerPlugin") == std::string::npos)
        rest += (rest.empty() ? "" : ", ") + one.substr(one.rfind('.') + 1, 80);
      one.clear();
    }
    if (!rest.empty())
      result_.notes.push_back(
          {"plugins", fmt::format("{}: their kernels are not modelled", rest), true});
  }

  // LLaMA-Factory: pt and sft have one loss over one model.
  void stage() {
    Text name;
    first("stage", {}, name);
    const std::string word = name.value_or("sft");
    if (word != "sft" && word != "pt")
      name.place->problem(fmt::format("is '{}': {}", word.substr(0, 80), other_losses));
  }

  // LLaMA-Factory's own words.
  bool is_factory() const {
    return root_.has("cutoff_len") || root_.has("finetuning_type") || root_.has("template");
  }

  // LLaMA-Factory checkpoints where it is not told otherwise (model/model_utils/checkpointing.py),
  // axolotl where it is told to; its "offload" takes what is kept to the host.
  void checkpointing() {
    Text asked, offloads;
    Flag never;
    first("gradient_checkpointing", {}, asked);
    first("disable_gradient_checkpointing", {}, never);
    first("activation_offloading", {}, offloads);
    check_word(offloads, std::array<std::string_view, 8>{"true", "false", "legacy", "disk", "True",
                                                         "False", "none", "hidden_states"});
    const std::string word = asked.value_or(""), where = offloads.value_or("false");
    const bool offload =
        word == "offload" || where == "true" || where == "True" || where == "legacy";
    const bool yes = offload || word == "true" || word == "True" || word == "unsloth";
    if (word == "offload_disk" || where == "disk")
      (word == "offload_disk" ? asked : offloads)
          .place->problem("activations on a disk are not modelled");
    else if (!word.empty() && !yes && word != "false" && word != "False")
      asked.place->problem(
          fmt::format("is '{}'; allowed: true, false, offload", word.substr(0, 80)));
    if (asked || offload)
      job_.recompute = Flag{yes, asked.place};
    else if (is_factory())
      job_.recompute = Flag{!never.value_or(false), never.place};
    else if (root_.has("base_model"))
      job_.recompute = false;
    offloads_ = offload;
  }

  void attention() {
    Text name;
    first("attn_implementation", {"flash_attn"}, name);
    const bool of_hub = name.value_or("").find('/') != std::string::npos;
    if (of_hub)
      result_.notes.push_back(
          {"attn_implementation",
           fmt::format("the kernel {} is modelled as flash attention", (*name).substr(0, 80)),
           true});
    else
      check_word(name, attentions);
    Flag eager;
    first("eager_attention", {}, eager);
    const std::string word = name.value_or("sdpa");
    unfused_ = word == "eager" || word == "disabled" || eager.value_or(false);
    Flag flash;
    first("flash_attention", {}, flash);
    if (flash.value_or(false) || word == "flash_attention_2" || word == "fa2")
      job_.attention = TrainerAttention::flash_2;
    if (word == "flash_attention_3" || word == "fa3") job_.attention = TrainerAttention::flash_3;
    if (word == "flex_attention" || word == "xformers" || word == "sage")
      result_.notes.push_back({"attn_implementation", "attention is modelled as flash attention"});
  }

  // Attention within a pack is of its sequences, whose lengths the file does not say.
  void packing() {
    for (const char* key : {"sample_packing", "packing", "neat_packing", "padding_free"}) {
      Flag on;
      first(key, {}, on);
      if (on.value_or(false))
        result_.notes.push_back(
            {key, "the lengths of packed sequences are not in the file: layout.packed_length"});
    }
  }

  void parallelism() {
    first("dp_replicate_size", {}, job_.replicate);
    first("dp_shard_size", {}, job_.shard);
    first("tensor_parallel_size", {}, job_.tensor);
    first("context_parallel_size", {}, job_.context);
  }

  Text deepspeed_file() {
    Text name;
    const std::optional<ValueReader> value = root_.find("deepspeed");
    if (!value) return name;
    if (value->is_object())
      value->problem("an inline DeepSpeed configuration is not read here: write it to a file");
    else if (!value->peek_text().value_or("").empty())
      read_setting(root_, "deepspeed", name);
    return name;
  }

  // LLaMA-Factory's v1: dist_config and peft_config.
  void factory_sections() {
    if (const auto found = section_at(root_, "dist_config")) {
      Text name;
      read_setting(*found, "name", name);
      if (name.value_or("") == "fsdp2") {
        job_.engine = TrainerEngine::fsdp;
        job_.fsdp.version = 2;
        job_.fsdp.wrap = std::string{"TRANSFORMER_BASED_WRAP"};
      } else if (name) {
        name.place->problem(fmt::format("is '{}'; modelled: fsdp2", (*name).substr(0, 80)));
      }
      judge_keys(*found, anything, "dist_config.", result_);
    }
  }

  // fsdp: "full_shard auto_wrap", or a list of such words, or true; fsdp_config beside it.
  void sharding() {
    Text words;
    first("fsdp", {}, words);
    const auto section = section_at(root_, "fsdp_config");
    first("fsdp_version", {}, job_.fsdp.version);
    const bool asked = words && !(*words).empty() && *words != "false" && *words != "False";
    if (!asked && !section) return;
    job_.engine = TrainerEngine::fsdp;
    if (section) read_fsdp_section(*section, "fsdp_config.", job_.fsdp, result_);
    if (asked) options(words);
    if (!job_.fsdp.wrap && job_.fsdp.version.value_or(1) == 2)
      job_.fsdp.wrap = std::string{"TRANSFORMER_BASED_WRAP"};
  }

  void options(const Text& words) {
    std::string one;
    for (const char c : *words + " ") {
      if (c != ' ' && c != ',') {
        one += c;
        continue;
      }
      if (!one.empty()) option(one, words);
      one.clear();
    }
  }

  void option(const std::string& word, const Text& at) {
    constexpr std::array<std::string_view, 5> strategies{"full_shard", "shard_grad_op", "no_shard",
                                                         "hybrid_shard", "hybrid_shard_zero2"};
    if (word == "auto_wrap") {
      if (!job_.fsdp.wrap) job_.fsdp.wrap = Text{std::string{"TRANSFORMER_BASED_WRAP"}, at.place};
    } else if (word == "offload") {
      job_.fsdp.offload = Flag{true, at.place};
    } else if (std::ranges::find(strategies, word) != strategies.end()) {
      if (!job_.fsdp.strategy) job_.fsdp.strategy = Text{word, at.place};
    } else if (word != "true" && word != "True") {
      at.place->problem(
          fmt::format("fsdp: '{}' is not known; allowed: full_shard, shard_grad_op, "
                      "no_shard, hybrid_shard, hybrid_shard_zero2, auto_wrap",
                      word));
    }
  }

  // The name of a model on the hub is no file.
  void model() {
    Text name;
    first("base_model", {"model_name_or_path"}, name);
    if (root_.has("model_class")) {
      first("model", {}, name);
      result_.ignored.emplace_back("model_class");
    }
    take_hub_model(name, request_, result_);
  }

  void leave_rest() {
    const std::span<const KnownKey> costless = known_keys("trainer", "costless");
    std::string names;
    for (const std::string& key : root_.unasked_keys()) {
      const std::optional<ValueReader> value = root_.find(key);
      if (known_key(costless, key) != nullptr || !value || is_neutral(*value, ""))
        result_.ignored.push_back(key);
      else
        names += (names.empty() ? "" : ", ") + key;
    }
    if (!names.empty())
      result_.notes.push_back(
          {"arguments", "not read, as if they did not change a step: " + names});
  }

  // axolotl's MLPs in pieces: as many as the file says, else tokens over hidden features
  // (monkeypatch/tiled_mlp/patch.py).
  void tile(Imported& into) const {
    const std::int64_t given = tiles_ ? SettingProblems{root_}.size(tiles_, 1, 4096) : 0;
    if (!tiled_.value_or(false)) return;
    const std::int64_t tokens = into.layout.sequence_length / into.layout.context_parallel;
    if (tiles_)
      into.layout.mlp_tiles = static_cast<int>(given);
    else if (into.shape.hidden > 0)
      into.layout.mlp_tiles =
          static_cast<int>(std::min<std::int64_t>(divide_up(tokens, into.shape.hidden), 4096));
    else
      tiled_.place->problem("tiled_mlp_num_shards is not there, nor the hidden size of the model");
  }

  // TRL at f2cd5771, trainer/sft_trainer.py, _chunked_cross_entropy_loss: chunks of 256 tokens,
  // each under a checkpoint. Where such chunks are not modelled, Liger's. axolotl's
  // chunked_cross_entropy (monkeypatch/loss/chunked.py at 067b021c) takes all logits, in 16 bits,
  // and casts those of a chunk within a compiled kernel, however many chunks there are.
  void chunk_loss(Imported& into) const {
    if (loss_parts_) SettingProblems{root_}.size(loss_parts_, 1, 65'536);
    if (compiled_loss_.value_or(false)) into.framework.loss = LossForm::keeps_logits;
    if (!chunks_loss_) return;
    const std::int64_t held = into.layout.sequence_length / into.layout.context_parallel;
    const std::int64_t chunks = held * into.layout.micro_batch / 256;
    if (chunks < 2 || held % chunks != 0 || into.layout.tensor_parallel > 1) {
      into.framework.loss = LossForm::chunked;
      return;
    }
    into.layout.loss_chunks = static_cast<int>(chunks);
    into.framework.execution.loss_chunks = LossChunks::again;
  }

  Imported deepspeed(const Text& file) {
    const ImportRequest known = request_of_trainer(job_, request_, root_, result_);
    yaml_.finish();
    const bool is_inline = !file && started_ && !started_->deepspeed.empty();
    Imported job =
        is_inline
            ? import_deepspeed(Document::parse(started_->deepspeed, yaml_.name(), Syntax::json),
                               nullptr, known)
            : import_deepspeed_file(file ? file : started_->deepspeed_file, folder_, known);
    tile(job);
    if (adapt(job)) finish_import(yaml_, root_, job);
    std::erase_if(job.notes, [](const Note& note) { return note.key == "framework"; });
    if (job_.optimizer != OptimizerKind::adam || job_.states != StateFormat::plain)
      take_optimizer(job_, job.layout);
    if (job_.compiled) compile_layers(job.framework, job.notes);
    run_with_liger(job_.liger, job.framework);
    chunk_loss(job);
    job.notes.insert(job.notes.begin(), result_.notes.begin(), result_.notes.end());
    job.ignored.insert(job.ignored.begin(), result_.ignored.begin(), result_.ignored.end());
    return job;
  }

  bool adapt(Imported& into) const {
    into.layout.lora_rank = job_.adapters.lora_rank;
    if (!into.layout.trains_adapters()) return false;
    into.layout.lora_modules = job_.adapters.lora_modules;
    into.layout.frozen_format = job_.adapters.frozen_format;
    into.layout.outlier_share = job_.adapters.outlier_share;
    into.layout.lora_magnitudes = job_.adapters.lora_magnitudes;
    into.layout.trains_embedding = job_.adapters.trains_embedding;
    into.layout.trains_head = job_.adapters.trains_head;
    if (root_.has("lora_target_parameters")) into.layout.expert_adapters = ExpertAdapters::each;
    keep_adapters_of_model(into);
    return true;
  }

  Imported torch() {
    // axolotl and LLaMA-Factory start their programs themselves.
    if (job_.engine == TrainerEngine::ddp && !started_ && !is_factory() && !root_.has("base_model"))
      result_.notes.push_back({"fsdp", "neither fsdp nor deepspeed is in the file: DDP"});
    MissingOptions missing{"accelerate"};
    scenario_of_trainer(job_, request_, missing, root_, result_);
    adapt(result_);
    tile(result_);
    chunk_loss(result_);
    if (unfused_) result_.layout.attention = AttentionKernel::unfused;
    if (offloads_) result_.layout.offload_activations = OffloadTarget::cpu;
    if (!missing.any()) finish_import(yaml_, root_, result_);
    yaml_.finish();
    return result_;
  }

  const Document& yaml_;
  const std::string& folder_;
  ImportRequest request_;
  const ObjectReader root_;
  TrainerJob job_;
  Imported result_;
  std::optional<AccelerateJob> started_;  // by accelerate launch
  bool unfused_ = false, offloads_ = false, chunks_loss_ = false;
  Flag tiled_, compiled_loss_;
  Whole tiles_, loss_parts_;
};

}  // namespace

bool is_trainer_file(const ObjectReader& root) {
  if (root.has("distributed_type") || root.has("compute_environment")) return false;
  for (const char* key : {"base_model", "model_name_or_path", "per_device_train_batch_size",
                          "micro_batch_size", "sequence_len"})
    if (root.has(key)) return true;
  return false;
}

Imported import_trainer(const Document& yaml, const Document* accelerate, const std::string& folder,
                        const ImportRequest& request) {
  Imported made = TrainerReader{yaml, accelerate, folder, request}.read();
  if (accelerate != nullptr) accelerate->finish();
  return made;
}

}  // namespace sim
