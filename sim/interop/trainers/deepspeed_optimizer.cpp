// "optimizer" of DeepSpeed's JSON. Names: deepspeedai/DeepSpeed deepspeed/runtime/config.py (commit
// 029f12b3), DEEPSPEED_OPTIMIZERS, in any case; others are classes of torch.optim
// (runtime/engine.py, _configure_basic_optimizer).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/interop/trainers/deepspeed_keys.hpp"

namespace sim {
namespace {

struct KnownOptimizer {
  std::string_view name;  // in lower case
  OptimizerKind kind = OptimizerKind::adam;
  std::string_view refusal{};
  std::string_view note{};
  GradientCompression compression = GradientCompression::none;
};

constexpr std::string_view compressed = "its compressed messages are not modelled";
constexpr std::string_view states = "its states are not modelled";
constexpr std::string_view on_host =
    "the host updates what zero_optimization.offload_optimizer names";
constexpr std::string_view as_base = "muP only scales learning rates";

constexpr std::array deepspeed_optimizers{
    KnownOptimizer{"adam"},
    KnownOptimizer{"adamw"},
    KnownOptimizer{"fusedadam"},
    KnownOptimizer{"lion", OptimizerKind::lion},
    KnownOptimizer{"sgd", OptimizerKind::sgd},
    KnownOptimizer{"muadam", OptimizerKind::adam, "", as_base},
    KnownOptimizer{"muadamw", OptimizerKind::adam, "", as_base},
    KnownOptimizer{"musgd", OptimizerKind::sgd, "", as_base},
    KnownOptimizer{"muon", OptimizerKind::adam,
                   "it keeps one momentum for matrices and Adam's two moments for the rest, and "
                   "multiplies out each matrix to orthogonalise it, which is not modelled"},
    KnownOptimizer{"lamb", OptimizerKind::lamb},
    KnownOptimizer{"fusedlamb", OptimizerKind::lamb},
    KnownOptimizer{"onebitadam", OptimizerKind::adam, "",
                   "forecast behind its warm-up of freeze_step steps, which are those of Adam",
                   GradientCompression::one_bit},
    KnownOptimizer{"zerooneadam", OptimizerKind::adam, compressed},
    KnownOptimizer{"onebitlamb", OptimizerKind::lamb, "",
                   "forecast behind its warm-up of freeze_step steps, which are those of LAMB",
                   GradientCompression::one_bit_lamb},
    KnownOptimizer{"cpuadam", OptimizerKind::adam, "", on_host},
    KnownOptimizer{"deepspeedcpuadam", OptimizerKind::adam, "", on_host},
};

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}

// Momentum 0, the default of torch.optim.SGD, keeps none.
OptimizerKind kind_of_sgd(const std::optional<ObjectReader>& params) {
  if (!params) return OptimizerKind::sgd;
  if (is_auto(*params, "momentum"))
    params->problem("momentum", "nothing fills in the momentum: write a number");
  const Real momentum = deepspeed_setting<double>(*params, "momentum");
  return momentum.value_or(0) != 0 ? OptimizerKind::momentum : OptimizerKind::sgd;
}

void note_passes(const ObjectReader& params, OptimizerKind kind, Imported& result) {
  const auto note = [&](const char* key, const char* what) {
    result.notes.push_back({fmt::format("optimizer.params.{}", key), what});
  };
  if (deepspeed_setting<bool>(params, "torch_adam").value_or(false))
    note("torch_adam", "PyTorch's Adam is forecast at the speed of DeepSpeed's");
  if (deepspeed_setting<bool>(params, "amsgrad").value_or(false))
    params.find("amsgrad")->problem("amsgrad keeps a third moment, which is not modelled");
  if (kind != OptimizerKind::sgd && kind != OptimizerKind::momentum) return;
  if (deepspeed_setting<bool>(params, "nesterov").value_or(false))
    note("nesterov", "its pass over the gradients is not modelled");
  if (deepspeed_setting<double>(params, "weight_decay").value_or(0) != 0)
    note("weight_decay", "its pass over gradients and weights is not modelled");
}

}  // namespace

void read_deepspeed_optimizer(const ObjectReader& json, Imported& result) {
  const auto section = section_at(json, "optimizer");
  if (!section) return;
  if (section->has("legacy_fusion")) result.ignored.emplace_back("optimizer.legacy_fusion");
  const Text type = deepspeed_setting<std::string>(*section, "type");
  const auto params = section_at(*section, "params");
  if (params) params->ignore_unknown();
  if (!type) {
    section->problem(
        "the optimizer has no type; modelled: AdamW, Adam, OneBitAdam, Lamb, OneBitLamb, Lion, "
        "SGD");
    return;
  }
  const std::string name = lower(*type);
  const auto row = std::ranges::find_if(
      deepspeed_optimizers, [&](const KnownOptimizer& one) { return one.name == name; });
  if (row == deepspeed_optimizers.end() || !row->refusal.empty()) {
    type.place->problem(
        fmt::format("the optimizer {}: {}; modelled: AdamW, Adam, OneBitAdam, Lamb, OneBitLamb, "
                    "Lion, SGD",
                    *type, row == deepspeed_optimizers.end() ? states : row->refusal));
    return;
  }
  result.layout.optimizer = row->kind == OptimizerKind::sgd ? kind_of_sgd(params) : row->kind;
  if (row->compression != GradientCompression::none) {
    result.layout.compression = row->compression;
    result.layout.reduce_dtype = result.layout.gradient_dtype;
  }
  if (!row->note.empty())
    result.notes.push_back({"optimizer.type", fmt::format("{}: {}", *type, row->note)});
  if (params) note_passes(*params, result.layout.optimizer, result);
}

}  // namespace sim
