// Sections and keys of Megatron-Bridge's ConfigContainer.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "sim/interop/settings.hpp"

namespace sim {

inline constexpr std::array bridge_sections{
    "model",     "train",           "ddp",        "comm_overlap", "optimizer",  "dist",
    "dataset",   "mixed_precision", "scheduler",  "logger",       "checkpoint", "rng",
    "profiling", "tokenizer",       "validation", "env_vars"};

// "section.key" as its two parts.
std::pair<std::string, std::string> split_bridge_place(std::string_view place);

// Keys that no setting has: refused, noted or ignored; what is not known is told.
void judge_bridge_sections(const ObjectReader& root, Imported& result);

// Whether a step may depend on a key ("model.num_layers", or a whole section): false for those that
// are known to be harmless.
bool bridge_key_counts(std::string_view path);

struct BridgeActivation {
  std::string_view word;  // ours
  std::string_view function;
  bool gated;
};
inline constexpr std::array bridge_activations{
    BridgeActivation{"gelu", "torch.nn.functional.gelu", false},
    BridgeActivation{"geglu", "torch.nn.functional.gelu", true},
    BridgeActivation{"geglu", "megatron.core.fusions.fused_bias_geglu.quick_gelu", true},
    BridgeActivation{"quick_geglu", "megatron.core.fusions.fused_bias_geglu.quick_gelu", true},
    BridgeActivation{"swiglu", "torch.nn.functional.silu", true},
    BridgeActivation{"squared_relu", "megatron.core.activations.squared_relu", false},
    // As recipes in Python name them.
    BridgeActivation{"squared_relu", "squared_relu", false},
    BridgeActivation{"swiglu", "F.silu", true},
    BridgeActivation{"gelu", "F.gelu", false},
    BridgeActivation{"geglu", "F.gelu", true},
};

}  // namespace sim
