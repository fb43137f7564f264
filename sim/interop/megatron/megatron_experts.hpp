// Which layers have experts, as Megatron-LM says it (--moe-layer-freq), and what it can set about
// experts beyond the settings of MegatronConfig.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/interop/handover.hpp"
#include "sim/interop/settings.hpp"

namespace sim {

// Megatron-LM evaluates "N", one layer of every N, or a list in Python, "([0]*3+[1]*58)"
// (megatron/training/arguments.py, moe_freq_type). Known of Python: lists of 0 and 1, +, *n and
// parentheses.
struct ExpertLayers {
  std::vector<bool> pattern;
  std::string problem;  // what is wrong with the text, or nothing
};
// OfEvery is what a number N takes: flags of layers without attention or with a window leave out
// every N-th one (--linear-attention-freq, --window-attn-skip-freq).
enum class OfEvery : std::uint8_t { first, all_but_last };
ExpertLayers parse_expert_layers(std::string_view text, std::int64_t layers,
                                 OfEvery taken = OfEvery::first);

// The text that parse_expert_layers() reads back as the layers of `experts`.
std::string expert_layers_text(const Experts& experts, std::int64_t layers);
// The same as a list of all layers, "[0, 0, 0, 1, ...]", or as a number.
std::string expert_layers_list(const Experts& experts, std::int64_t layers);

// "[1,0]": which layers have something.
std::string layer_list_text(std::int64_t layers, const std::function<bool(std::int64_t)>& has);

enum class KeySpelling : std::uint8_t { flag, snake_case };  // --moe-router-topk, moe_router_topk
// judge_keys() for what a job with experts may set and is not modelled.
void judge_expert_keys(const ObjectReader& from, KeySpelling spelling, std::string_view prefix,
                       Imported& result);

}  // namespace sim
