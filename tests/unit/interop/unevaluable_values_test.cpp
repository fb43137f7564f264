// A value that nobody can evaluate is never read as a default: of every key that a reader asks its
// file for, the import refuses it, or says that the key changes no step.
#include <algorithm>
#include <functional>
#include <set>

#include "sim/config/input_log.hpp"
#include "sim/interop/bridge/bridge_recipe.hpp"
#include "sim/interop/handover.hpp"
#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/model/transformer.hpp"
#include "sim/scripts/scripts.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/interop/imports.hpp"

using namespace sim;

namespace {

using Lines = std::vector<std::string>;

struct FileReader {
  std::string name;
  std::string text;  // of a file in which as many keys as can be count
  Document (*parse)(const std::string& text);
  std::function<Imported(const Document&)> import;
};

Document flags(const std::string& text) {
  return parse_flags(text, "a");
}
Document variables(const std::string& text) {
  return parse_variables(text, "a");
}
template <Syntax syntax>
Document file_of(const std::string& text) {
  return Document::parse(text, "a", syntax);
}

Document changed_file(const FileReader& reader, const std::vector<Change>& changes) {
  Document document = reader.parse(reader.text);
  document.change(changes);
  return document;
}

Lines asked_keys(const FileReader& reader) {
  const InputLog log{LoggedKeys::asked};
  const Lines problems = test::problems([&] { return reader.import(changed_file(reader, {})); });
  CHECK(problems == Lines{});
  return {log.asked().begin(), log.asked().end()};
}

// Keys whose values no reader has to evaluate.
bool only_chooses(const std::string& key) {
  static const std::set<std::string> keys{
      // Names that a reader compares, to tell files apart.
      "--dataset", "--train-type", "--tuner-type", "model._target_",
      // Told under the name of the variable.
      "--pytorch-cuda-alloc-conf",
      // Any negative factor is none, as in Megatron-LM.
      "--moe-expert-capacity-factor",
      // Read where model.seq_length is missing.
      "dataset.seq_length", "dataset.sequence_length",
      // A number of another switch.
      "model.backend.fake_gate_noise"};
  return keys.contains(key);
}

// As without an effect, or in a note of the key or of its section.
bool is_told(const Imported& job, const std::string& key) {
  const std::string leaf = key.substr(key.rfind('.') + 1);
  const auto names = [&](const std::string& name) { return name == key || name == leaf; };
  const auto tells = [&](const Note& note) {
    return names(note.key) || key.starts_with(note.key + ".") ||
           note.what.find(leaf) != std::string::npos;
  };
  return std::ranges::any_of(job.ignored, names) || std::ranges::any_of(job.notes, tells);
}

Lines taken_silently(const FileReader& reader, const std::vector<std::string>& values) {
  Lines silent;
  for (const std::string& key : asked_keys(reader))
    for (const std::string& value : values) {
      try {
        const Document document = changed_file(reader, {{key, value}});
        if (!only_chooses(key) && !is_told(reader.import(document), key))
          silent.push_back(key + ": " + value);
      } catch (const InputError&) {
      }
    }
  return silent;
}

TransformerShape small() {
  return load_model(test::source_dir() + "/models/llama-3.1-8b.yaml").shape.value();
}

const ImportRequest job_of_8{
    .gpus = 8, .model = small(), .sequence_length = 2048, .micro_batch = 1};

}  // namespace

TEST_CASE("every key of every reader: a value that nobody can evaluate is refused or told",
          "[interop]") {
  const auto megatron = [](const Document& d) { return import_megatron(d, {.gpus = 8}); };
  const std::string mixture = test::decoder(
      "--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 2 "
      "--tensor-model-parallel-size 2 --sequence-parallel --moe-grouped-gemm "
      "--moe-token-dispatcher-type alltoall --disable-bias-linear --fp8-format hybrid --swiglu "
      "--recompute-granularity full --recompute-method block --recompute-num-layers 2");
  const std::vector<FileReader> readers{
      {"megatron", test::decoder(""), flags, megatron},
      {"megatron experts", mixture, flags, megatron},
      {"deepspeed",
       R"({"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, "bf16": {"enabled": true}, "fp16": {"enabled": false},
       "data_types": {}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}, "tensor_parallel": {"autotp_size": 1},
       "activation_checkpointing": {}, "compile": {}, "pipeline": {},
       "zero_optimization": {"stage": 3, "overlap_comm": true, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}})",
       file_of<Syntax::json>,
       [](const Document& d) { return import_deepspeed(d, nullptr, job_of_8); }},
      {"bridge",
       R"(model: {num_layers: 32, hidden_size: 4096, ffn_hidden_size: 14336, num_attention_heads: 32, num_query_groups: 8, kv_channels: 128,
  normalization: RMSNorm, activation_func: torch.nn.functional.silu, gated_linear_unit: true, add_bias_linear: false, position_embedding_type: rope,
  share_embeddings_and_output_weights: false, attention_dropout: 0.0, hidden_dropout: 0.0, vocab_size: 128256, seq_length: 8192, tensor_model_parallel_size: 2, sequence_parallel: true}
train: {micro_batch_size: 1, global_batch_size: 128, train_iters: 100}
ddp: {use_distributed_optimizer: true, overlap_grad_reduce: true, overlap_param_gather: true}
mixed_precision: bf16_mixed
optimizer: {optimizer: adam, lr: 0.0003}
comm_overlap: {tp_comm_overlap: true}
dist: {}
dataset: {}
tokenizer: {}
checkpoint: {}
)",
       file_of<Syntax::yaml>, [](const Document& d) { return import_nemo(d, {.gpus = 8}); }},
      {"nemo1",
       R"(trainer: {devices: 8, num_nodes: 1, precision: bf16}
model:
  micro_batch_size: 2
  global_batch_size: 64
  tensor_model_parallel_size: 2
  sequence_parallel: true
  encoder_seq_length: 2048
  max_position_embeddings: 2048
  num_layers: 24
  hidden_size: 1024
  num_attention_heads: 16
  override_vocab_size: 50257
  hidden_dropout: 0.0
  attention_dropout: 0.0
  transformer_engine: true
  fp8: true
  megatron_amp_O2: true
  activations_checkpoint_granularity: full
  activations_checkpoint_method: block
  activations_checkpoint_num_layers: 1
  position_embedding_type: rope
  optim: {name: distributed_fused_adam, overlap_grad_sync: true}
)",
       file_of<Syntax::yaml>, [](const Document& d) { return import_nemo(d, {.gpus = 8}); }},
      {"torchtitan",
       R"([model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 4
seq_len = 8192
[parallelism]
data_parallel_shard_degree = 4
pipeline_parallel_degree = 2
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[compile]
enable = true
[optimizer]
name = "AdamW"
[quantize.linear.float8]
[experimental]
[float8]
[job]
[metrics]
[debug]
[checkpoint]
[profiling]
[comm]
)",
       file_of<Syntax::toml>, [](const Document& d) { return import_torchtitan(d, {.gpus = 8}); }},
      {"accelerate",
       R"(distributed_type: FSDP
fsdp_config: {fsdp_version: 2, fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP, fsdp_reshard_after_forward: true}
mixed_precision: bf16
num_machines: 1
num_processes: 8
dynamo_config: {}
parallelism_config: {}
)",
       file_of<Syntax::yaml>, [](const Document& d) { return import_accelerate(d, "", job_of_8); }},
      {"accelerate deepspeed",
       R"(distributed_type: DEEPSPEED
deepspeed_config: {zero_stage: 3, offload_optimizer_device: cpu, offload_param_device: cpu, gradient_accumulation_steps: 1}
mixed_precision: bf16
num_machines: 1
num_processes: 8
)",
       file_of<Syntax::yaml>, [](const Document& d) { return import_accelerate(d, "", job_of_8); }},
      {"axolotl",
       R"(base_model: NousResearch/Meta-Llama-3.1-8B
sequence_len: 8192
micro_batch_size: 2
gradient_accumulation_steps: 1
optimizer: adamw_torch_fused
bf16: auto
gradient_checkpointing: true
fsdp_version: 2
adapter: lora
lora_r: 16
lora_alpha: 32
lora_target_modules: [q_proj, v_proj]
fsdp_config: {auto_wrap_policy: TRANSFORMER_BASED_WRAP, reshard_after_forward: true}
)",
       file_of<Syntax::yaml>,
       [](const Document& d) { return import_accelerate(d, "", {.gpus = 8}); }},
      {"llama-factory",
       R"(model_name_or_path: meta-llama/Llama-3.1-8B
stage: sft
finetuning_type: full
template: llama3
cutoff_len: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
bf16: true
)",
       file_of<Syntax::yaml>,
       [](const Document& d) { return import_accelerate(d, "", {.gpus = 8}); }},
      {"trl",
       R"(model_name_or_path: meta-llama/Llama-3.1-8B
max_length: 2048
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
bf16: true
use_peft: true
lora_r: 16
lora_target_modules: all-linear
gradient_checkpointing: true
fsdp: full_shard auto_wrap
fsdp_config: {version: 2}
)",
       file_of<Syntax::yaml>,
       [](const Document& d) { return import_accelerate(d, "", {.gpus = 8}); }},
      {"automodel",
       R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {global_batch_size: 64, local_batch_size: 2}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config
  config: {pretrained_model_name_or_path: Qwen/Qwen3-30B-A3B}
  backend: {attn: te, linear: te, rms_norm: te, experts: torch_mm, dispatcher: hybridep}
distributed: {strategy: fsdp2, ep_size: 8, activation_checkpointing: true, moe: {reshard_after_forward: false}}
loss_fn: {_target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy}
dataset: {seq_len: 4096}
packed_sequence: {packed_sequence_size: 4096}
optimizer: {_target_: torch.optim.Adam, lr: 1.0e-5}
fp8: {}
compile: {}
)",
       file_of<Syntax::yaml>, [](const Document& d) { return import_automodel(d, {.gpus = 8}); }},
      {"automodel pipeline",
       R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {global_batch_size: 64, local_batch_size: 16}
model: {pretrained_model_name_or_path: meta-llama/Llama-3.1-8B, torch_dtype: float32}
distributed:
  _target_: nemo_automodel.components.distributed.fsdp2.FSDP2Manager
  dp_size: 2
  tp_size: 2
  pp_size: 2
  defer_fsdp_grad_sync: false
  pipeline: {pp_schedule: interleaved1f1b, pp_microbatch_size: 4}
dataset: {seq_len: 2048}
optimizer: {_target_: torch.optim.Adam, lr: 1.0e-5}
fp8: {enabled: true}
compile: {enabled: true}
)",
       file_of<Syntax::yaml>, [](const Document& d) { return import_automodel(d, {.gpus = 8}); }},
      {"automodel peft",
       R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {global_batch_size: 64, local_batch_size: 1}
model: {pretrained_model_name_or_path: meta-llama/Llama-3.1-8B}
distributed: {tp_size: 2}
dataset: {seq_len: 2048}
peft: {_target_: nemo_automodel.components._peft.lora.PeftConfig, dim: 8, target_modules: "*_proj"}
optimizer: {_target_: torch.optim.Adam, lr: 1.0e-5}
)",
       file_of<Syntax::yaml>, [](const Document& d) { return import_automodel(d, {.gpus = 8}); }},
      {"mlperf",
       "export MODEL_SIZE=405b\nexport TENSOR_MODEL_PARALLEL=4\nexport PIPELINE_MODEL_PARALLEL=8\n"
       "export CONTEXT_PARALLEL=2\nexport INTERLEAVED_PIPELINE=8\nexport MINIBS=144\n"
       "export ASYM_PP_EMBED=True\nexport ASYM_PP_LOSS=True\nexport DGXNNODES=64\n"
       "export DGXNGPU=8\nexport FP8=True\n",
       variables, [](const Document& d) { return import_mlperf(d, {}); }},
      {"mlperf lora",
       "export TP=4\nexport CP=2\nexport SP=1\nexport MBS=1\nexport MINIBS=1\n"
       "export DGXNNODES=8\nexport DGXNGPU=8\n",
       variables, [](const Document& d) { return import_mlperf(d, {}); }},
  };
  for (const FileReader& reader : readers) {
    CAPTURE(reader.name);
    CHECK(taken_silently(reader, {"10**10**8", "$(nproc)", "-7"}) == Lines{});
  }
}

TEST_CASE("every setting of a recipe in Python: what cannot be evaluated is refused or told",
          "[interop]") {
  const auto import = [](const std::string& line) {
    const std::string name = "small_pretrain_8gpu_config";
    const std::string text = "def " + name +
                             "():\n"
                             "    cfg = _pretrain_common()\n"
                             "    cfg.model = GPTModelProvider(num_layers=8, hidden_size=1024, "
                             "num_attention_heads=16, vocab_size=50304)\n"
                             "    cfg.model.normalization = 'RMSNorm'\n"
                             "    cfg.model.position_embedding_type = 'rope'\n"
                             "    cfg.model.hidden_dropout = cfg.model.attention_dropout = 0.0\n"
                             "    cfg.mixed_precision = MixedPrecisionConfig(bf16=True)\n" +
                             line + "    return cfg\n";
    return import_bridge_recipe(evaluate_recipe(text, "a.py", name, false), name, {});
  };
  CHECK(test::problems([&] { return import(""); }) == Lines{});
  MegatronConfig config;
  Lines silent;
  for_each_setting(config, [&](const Spelling& name, const auto&) {
    for (const char* place : name.bridge) {
      if (place == nullptr) continue;
      const Lines problems = test::problems(
          [&] { return import("    cfg." + std::string{place} + " = 10 ** 10 ** 8\n"); });
      const bool told =
          problems.size() == 1 &&
          problems.front().find(std::string{place} + " depends on") != std::string::npos &&
          problems.front().find("--set " + std::string{place}) != std::string::npos;
      if (!told) silent.emplace_back(place);
    }
  });
  CHECK(silent == Lines{});
  const Lines in_call = test::problems(
      [&] { return import("    cfg.train = TrainingConfig(micro_batch_size=10**10**8)\n"); });
  REQUIRE(in_call.size() == 1);
  CHECK(in_call.front().find("depends on 'TrainingConfig(micro_batch_size=...)'") !=
        std::string::npos);
}
