// What stands for cells that a table of runs leaves empty: what the framework of the row does where
// a job says nothing.
//   Megatron-LM    training/arguments.py: --recompute-granularity and --use-flash-attn are off,
//                  --attention-backend is auto (Transformer Engine takes the fastest kernel), the
//                  parallel sizes are 1, a global batch is micro-batch x data-parallel ranks
//   PyTorch        scaled_dot_product_attention runs FlashAttention-2; FSDP shards fully
//   torchtitan     models/llama3/train_configs: selective recomputation, operator by operator
//   DeepSpeed      runtime/config.py: train_batch_size from one micro-batch per rank
//   Megatron-Bridge, DGX Cloud Benchmarking (NVIDIA's recipes): comm_overlap.py, recipes of NeMo 2:
//                  tp_comm_overlap is on; without tensor parallelism it has no effect
//   Scaling        core/nn/attention: torch unless flash attention is configured
#include <fmt/format.h>

#include <array>
#include <optional>

#include "sim/validation/measured_rows.hpp"
#include "sim/validation/run_scenario.hpp"
#include "sim/validation/run_words.hpp"

namespace sim {
namespace {

struct Defaults {
  FrameworkName framework;
  std::string_view name;
  std::string_view recompute;
  std::string_view attention;
};
constexpr std::array known_defaults{
    Defaults{FrameworkName::megatron, "Megatron-LM", "none", "cuDNN or flash, the fastest"},
    Defaults{FrameworkName::pytorch, "PyTorch", "none", "flash (SDPA)"},
    Defaults{FrameworkName::torchtitan, "torchtitan", "selective, per-op", "flash (SDPA)"},
    Defaults{FrameworkName::deepspeed, "DeepSpeed", "none", "flash (SDPA)"},
    Defaults{FrameworkName::megatron_deepspeed, "Megatron-DeepSpeed", "none", "unfused"},
    Defaults{FrameworkName::scaling, "Scaling", "none", "torch"},
};

bool is_open(std::string_view text) {
  const std::string lower = lower_case(text);
  for (const char* words : {"", "not stated", "not said", "unknown", "n/a", "-", "?"})
    if (lower == words) return true;
  return false;
}

class Filler {
 public:
  Filler(RunCells& cells, const Defaults& defaults) : cells_{cells}, defaults_{defaults} {}

  std::vector<std::string> fill() {
    fill("recompute", defaults_.recompute);
    fill("attn_kernel", defaults_.attention);
    fill("tp", "1");
    fill("pp", "1");
    fill_overlap();
    fill_stage();
    fill_batches();
    return std::move(said_);
  }

 private:
  void put(std::string_view column, std::string_view value, std::string_view why) {
    cells_.text.insert_or_assign(std::string{column}, std::string{value});
    said_.push_back(fmt::format("{}: {}, {}", column, value, why));
  }
  void fill(std::string_view column, std::string_view value) {
    if (is_open(cells_[column]))
      put(column, value, fmt::format("the default of {}", defaults_.name));
  }

  void fill_overlap() {
    if (!is_open(cells_["overlap"])) return;
    for (const char* recipes : {"megatron-bridge", "megatron bridge", "nvidia/nemo",
                                "nemo-framework/user-guide", "dgxc", "dgx cloud"})
      if (says(cells_, {"row_id", "source", "notes"}, recipes))
        return put("overlap", "TP comm overlap (userbuffers), overlap_p2p_comm",
                   "the default of NVIDIA's recipes");
  }

  // "ZeRO-2" in words; FSDP shards parameters, gradients and optimizer unless it is told not to.
  void fill_stage() {
    if (!cells_["zero_stage"].empty()) return;
    const std::string strategy = lower_case(cells_["shard_strategy"]);
    for (const char* stage : {"1", "2", "3"})
      if (contains(strategy, fmt::format("zero-{}", stage)))
        return put("zero_stage", stage, "as shard_strategy says");
    if (contains(strategy, "fsdp")) put("zero_stage", "3", "the default of FSDP");
  }

  // Of micro-batch, global batch and the number of micro-batches, one may follow from the others.
  void fill_batches() {
    const std::optional<std::int64_t> ranks = cells_.whole("dp");
    if (!ranks || *ranks < 1) return;
    const std::optional<std::int64_t> micro = cells_.whole("mbs"), global = cells_.whole("gbs");
    const std::optional<double> steps = cells_.real("grad_accum");
    if (cells_["gbs"].empty() && micro) {
      const double batch = static_cast<double>(*micro * *ranks) * steps.value_or(1);
      if (batch >= 1 && batch < 1e9)
        put("gbs", fmt::format("{:.0f}", batch),
            steps ? "mbs x dp x grad_accum"
                  : fmt::format("mbs x dp, the default of {}", defaults_.name));
    }
    if (cells_["mbs"].empty() && global && steps && *steps >= 1) {
      const double batch = static_cast<double>(*global) / (static_cast<double>(*ranks) * *steps);
      if (batch >= 1 && batch == static_cast<double>(static_cast<std::int64_t>(batch)))
        put("mbs", fmt::format("{:.0f}", batch), "gbs / (dp x grad_accum)");
    }
  }

  RunCells& cells_;
  const Defaults& defaults_;
  std::vector<std::string> said_;
};

const Defaults& framework_defaults(const RunCells& cells) {
  FrameworkName name = FrameworkName::megatron;
  try {
    name = run_framework(cells).name;
  } catch (const NotSimulated&) {
    // What it does not understand is told where the row is simulated.
  }
  for (const Defaults& entry : known_defaults)
    if (entry.framework == name) return entry;
  return known_defaults.front();
}

}  // namespace

std::vector<std::string> fill_empty_cells(RunCells& cells) {
  if (cells["status"].starts_with("analytic")) return {};
  return Filler{cells, framework_defaults(cells)}.fill();
}

}  // namespace sim
