// Defaults for cells that a table of runs leaves empty: what the framework of the row does where a
// job says nothing (sim/framework/presets), and
//   Megatron-LM    training/arguments.py: the parallel sizes are 1, a global batch is micro-batch x
//                  data-parallel ranks
//   PyTorch        FSDP shards fully
//   DeepSpeed      runtime/config.py: train_batch_size from one micro-batch per rank
#include <fmt/format.h>

#include <optional>

#include "sim/rows/measured_rows.hpp"
#include "sim/rows/run_scenario.hpp"
#include "sim/rows/run_words.hpp"

namespace sim {
namespace {

// As the columns have them.
std::string_view cell_of(Recompute recompute) {
  return recompute == Recompute::operators ? "selective, per-op" : word(recompute);
}
std::string_view cell_of(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::unfused:
      return "unfused";
    case AttentionKernel::flash_2:
      return "flash (SDPA)";
    default:
      return "cuDNN or flash, the fastest";
  }
}

Layout defaults_of(const Preset& preset) {
  Layout layout;
  for (const LayoutDefault& row : preset.layout)
    row.set(layout);
  return layout;
}

class Filler {
 public:
  Filler(RunCells& cells, const Preset& preset) : cells_{cells}, preset_{preset} {}

  std::vector<std::string> fill() {
    const Layout defaults = defaults_of(preset_);
    fill("recompute", cell_of(defaults.recompute));
    fill("attn_kernel", cell_of(defaults.attention));
    fill("tp", "1");
    fill("pp", "1");
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
    if (is_open_cell(cells_[column]))
      put(column, value, fmt::format("the default of {}", preset_.title));
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

  // fill_batches(): of micro-batch, global batch and number of micro-batches, one may follow from
  // the others.
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
                  : fmt::format("mbs x dp, the default of {}", preset_.title));
    }
    if (cells_["mbs"].empty() && global && steps && *steps >= 1) {
      const double batch = static_cast<double>(*global) / (static_cast<double>(*ranks) * *steps);
      if (batch >= 1 && batch == static_cast<double>(static_cast<std::int64_t>(batch)))
        put("mbs", fmt::format("{:.0f}", batch), "gbs / (dp x grad_accum)");
    }
  }

  RunCells& cells_;
  const Preset& preset_;
  std::vector<std::string> said_;
};

const Preset& preset_or_default(const RunCells& cells) {
  try {
    return run_preset(cells);
  } catch (const NotSimulated&) {
    return preset_of(PresetName::megatron);  // told where the row is simulated
  }
}

}  // namespace

bool is_open_cell(std::string_view text) {
  const std::string lower = lower_case(text);
  for (const char* words : {"", "not stated", "not said", "unknown", "n/a", "-", "?"})
    if (lower == words) return true;
  return false;
}

std::vector<std::string> fill_empty_cells(RunCells& cells) {
  if (cells["status"].starts_with("analytic")) return {};
  return Filler{cells, preset_or_default(cells)}.fill();
}

}  // namespace sim
