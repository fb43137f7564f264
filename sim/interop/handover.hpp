// Files that are handed to and taken from training frameworks: a scenario as the file that starts
// the job, and such a file as a scenario.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/framework/framework.hpp"
#include "sim/layout/layout.hpp"
#include "sim/model/transformer_shape.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {

enum class Target : std::uint8_t { megatron, torchtitan, deepspeed, nemo, scenario };
constexpr auto words_of(Target) {
  return std::array{Word{Target::megatron, "megatron"}, Word{Target::torchtitan, "torchtitan"},
                    Word{Target::deepspeed, "deepspeed"}, Word{Target::nemo, "nemo"},
                    Word{Target::scenario, "scenario"}};
}

// ---- Out.

struct Exported {
  std::string text;
  // DeepSpeed: the flags of Megatron-DeepSpeed that carry what the JSON cannot; else empty.
  std::string flags;
  std::vector<Note> notes;  // in `text` as comments, too, where its syntax has them
};

// The scenario in the target's own names. `folder`: that of the file that will be written (for
// Target::scenario). Throws InputError with every part of the scenario that the target cannot
// express and that has no near equivalent. What was written is read back: whatever differs from the
// scenario is in the notes, or std::logic_error is thrown.
Exported export_scenario(const Scenario& scenario, Target target, const std::string& folder);

// ---- In.

struct ImportRequest {
  int gpus = 0;                             // of the job; 0: not known
  std::optional<TransformerShape> model{};  // where the file does not describe it
  std::int64_t sequence_length = 0;         // where the file does not say it; 0: not known
  bool has_flash_2 = false;                 // the device file has rates of FlashAttention-2
  bool prefers_cudnn = false;               // PyTorch's attention is cuDNN's on this device
  std::optional<Generation> generation{};   // of the device; none: not known
  Bytes workspaces{};                       // of cuBLAS, that the device file reserves
  // Settings that the files of DeepSpeed and of Hugging Face leave to the program, or call "auto".
  std::int64_t micro_batch = 0, global_batch = 0, accumulation_steps = 0;  // 0: not known
  std::optional<DType> precision{};                                        // bf16, fp16, fp32
  std::optional<Recompute> recompute{};
  std::int64_t sequence_ranks = 0;  // of Ulysses, beside a file of DeepSpeed; 0: it says them
  int gpus_per_node = 0;            // of the cluster; 0: not known
  std::string_view command{};       // of `stepcast import`, for examples; empty: the file's format
};

struct Imported {
  TransformerShape shape;
  Layout layout;
  Framework framework;
  bool graphs = false;
  std::vector<GraphModule> graph_scope{};
  BlockLimits most_blocks{};
  int segment_gpus = 0;     // that the scheduler keeps on one rack (Slurm, --segment); 0: not known
  std::vector<Note> notes;  // what the forecast will leave out or read otherwise
  std::vector<std::string> ignored;  // keys without an effect on time or memory of a step
  CarriedSettings carried{};         // those of them that change the model or the optimizer
};

// Each throws InputError with every mistake of the file: what it says against itself, against the
// rules of its framework, and what is not modelled and has no near equivalent.
Imported import_megatron(const Document& flags, const ImportRequest& request);
Imported import_torchtitan(const Document& toml, const ImportRequest& request);
Imported import_nemo(const Document& yaml, const ImportRequest& request);
// `flags`: those of Megatron-DeepSpeed, beside the JSON; or nullptr.
Imported import_deepspeed(const Document& json, const Document* flags,
                          const ImportRequest& request);
// The YAML of Accelerate, or the arguments of TRL's and axolotl's trainers. `folder`: where it
// lies, for a DeepSpeed file that it names; empty: such a file is refused.
Imported import_accelerate(const Document& yaml, const std::string& folder,
                           const ImportRequest& request);
// The variables of a config_*.sh of NVIDIA's language models in MLPerf Training.
Imported import_mlperf(const Document& variables, const ImportRequest& request);
// The YAML of a recipe of NeMo Automodel.
Imported import_automodel(const Document& yaml, const ImportRequest& request);

// ---- Both.

// Keys ("layout.schedule", "model.hidden", "framework") in which the two differ, but for what no
// step depends on: the placement of dimensions of one rank, a prefetch depth without ZeRO-3, the
// name of the model.
std::vector<std::string> differences(const Scenario& scenario, const Imported& imported);
// Whether ranks follow each other in the same order, seen without the dimensions of one rank.
bool same_order(const Layout& a, const Layout& b);
bool same_shape(const TransformerShape& a, const TransformerShape& b);
// canonical() leaves out what no step of the scenario depends on.
Framework canonical(const Framework& framework, const Scenario& scenario);

}  // namespace sim
