// A job of Hugging Face's Accelerate in its own words, whichever file says them: the YAML of
// `accelerate config`, or the arguments of a trainer that wraps it (TRL, axolotl).
//
// Names, defaults and rules: huggingface/accelerate (commit 16cb6eb8), utils/dataclasses.py
// (FullyShardedDataParallelPlugin, DeepSpeedPlugin), commands/launch.py, utils/launch.py,
// parallelism_config.py, utils/fsdp_utils.py.
#pragma once

#include <string>

#include "sim/interop/job_batch.hpp"
#include "sim/interop/missing_options.hpp"
#include "sim/interop/settings.hpp"

namespace sim {

enum class TrainerEngine : std::uint8_t { ddp, fsdp, deepspeed };

// fsdp_config, with or without its prefix "fsdp_".
struct FsdpSettings {
  Whole version;
  Text strategy, reshard;  // a word, 1 to 5; of version 2 true or false
  Text wrap, classes, prefetch;
  Flag offload, recompute;
};

// sdpa: scaled_dot_product_attention, whose kernel depends on the GPU.
enum class TrainerAttention : std::uint8_t { sdpa, flash_2, flash_3 };

// Kernels of Liger in place of transformers' own.
struct LigerKernels {
  bool norm = false, rotary = false, gate = false, loss = false;
};

struct TrainerJob {
  TrainerEngine engine = TrainerEngine::ddp;
  Whole processes, machines;
  JobBatch batch;
  Text mixed;                   // no, fp16, bf16
  DType weights = DType::fp32;  // as the program loads them; what trains without mixed precision
  bool tf32 = false;            // products of fp32 operands in tf32
  Flag recompute;               // gradient_checkpointing
  TrainerAttention attention = TrainerAttention::sdpa;
  bool multi_tensor = false;  // AdamW operation by operation
  OptimizerKind optimizer = OptimizerKind::adam;
  StateFormat states = StateFormat::plain;
  LigerKernels liger;
  bool compiled = false;  // by torch.compile, with Inductor
  FsdpSettings fsdp;
  Whole replicate, shard, tensor, context;  // parallelism_config
  Text context_method;
  Whole sequence_ranks;  // of DeepSpeed's Ulysses
  Flag sequence_parallel;
  // Stages of torch.distributed.pipelining: the batch of a GPU goes through them in parts.
  Whole pipeline, pipeline_micro, layers_per_stage;
  Text schedule, round_stages;  // up, down: to a multiple of the ranks
  Whole sequence_length;
  Layout adapters;  // its lora_rank, lora_modules and frozen_format
  std::string_view program = "Accelerate";
  bool syncs_each = false;   // gradients of every micro-batch, not only of the last
  bool own_experts = false;  // classes of the program's own, not of transformers
};

// Adds what the section has; keys without a setting are told, refused or without an effect.
void read_fsdp_section(const ObjectReader& section, std::string_view prefix, FsdpSettings& fsdp,
                       Imported& result);

// The layout and framework of a job of DDP or FSDP. Problems go to the places of the settings, or
// to `root`; `missing` is told there, too, and then nothing is read further.
void scenario_of_trainer(const TrainerJob& job, const ImportRequest& request,
                         MissingOptions& missing, const ObjectReader& root, Imported& result);

// Its optimizer, and how that keeps moments.
void take_optimizer(const TrainerJob& job, Layout& layout);

// Its stages. REQUIRES: the degrees, and the batch of a GPU as micro-batch, are in `result`.
void read_trainer_pipeline(const TrainerJob& job, const SettingProblems& problems,
                           Imported& result);

// request_of_trainer() adds what the job knows beside a DeepSpeed file.
ImportRequest request_of_trainer(const TrainerJob& job, const ImportRequest& request,
                                 const ObjectReader& root, Imported& result);
// A file of DeepSpeed that `from` names. `folder`: where files may be read; empty: nowhere.
Imported import_deepspeed_file(const Text& name, const std::string& folder,
                               const ImportRequest& request);

// fuse_layers() sets what torch.compile fuses of the layers: what stands between products and
// attention.
void fuse_layers(Framework& framework);
// The same, with a note: no such job was compared with a measurement.
void compile_layers(Framework& framework, std::vector<Note>& notes);
// Liger's kernels in a framework's place.
void run_with_liger(const LigerKernels& liger, Framework& framework);
// read_liger() are the kernels of Liger that the file asks for.
LigerKernels read_liger(const ObjectReader& root);

// Low-rank adapters.
void read_peft_of_trainer(const ObjectReader& root, TrainerJob& job, Imported& result);
// AccelerateJob is what a file of `accelerate config` says, for a trainer that it starts.
struct AccelerateJob {
  TrainerJob job;
  Text deepspeed_file;
  std::string deepspeed;  // JSON of what it says inline; or empty
};
// Keys without a setting are told, refused or without an effect.
AccelerateJob read_accelerate_job(const Document& yaml, Imported& result);

// Arguments of TRL's and axolotl's trainers.
bool is_trainer_file(const ObjectReader& root);
// `accelerate`: the file of `accelerate config` that starts the trainer; or nullptr.
Imported import_trainer(const Document& yaml, const Document* accelerate, const std::string& folder,
                        const ImportRequest& request);

}  // namespace sim
