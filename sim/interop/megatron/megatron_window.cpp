// Sliding windows of attention, and attention sinks (Megatron-LM at d98e8a64,
// core/transformer/transformer_config.py: window_size, window_attn_skip_freq, softmax_type;
// core/transformer/utils.py, is_layer_window_attention: layers count from 1, and every n-th one, or
// those with a 0 in the list, see all tokens).
#include <algorithm>
#include <array>
#include <optional>

#include "sim/config/scalars.hpp"
#include "sim/interop/megatron/megatron_config.hpp"
#include "sim/interop/megatron/megatron_experts.hpp"

namespace sim {
namespace {

// "128,0", "(128, 0)" or "[128, 0]": tokens before a token and behind it. Nothing: not two numbers.
std::optional<std::array<std::int64_t, 2>> two_numbers(std::string_view text) {
  std::array<std::string, 2> parts;
  std::size_t part = 0;
  for (const char c : text) {
    if (c == ',' || (c == ' ' && part == 0 && !parts[0].empty() && text.find(',') == text.npos)) {
      if (++part == parts.size()) return std::nullopt;
    } else if (std::string_view{"()[] "}.find(c) == std::string_view::npos) {
      parts[part] += c;
    }
  }
  std::array<std::int64_t, 2> numbers{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const ParsedNumber<std::int64_t> parsed = parse_integer(parts[i], true);
    const auto* number = std::get_if<std::int64_t>(&parsed);
    if (number == nullptr) return std::nullopt;
    numbers[i] = *number;
  }
  return numbers;
}

}  // namespace

void read_window(const MegatronConfig& config, const SettingProblems& problems,
                 std::int64_t sequence, TransformerShape& shape) {
  const std::string softmax = config.softmax_type.value_or("vanilla");
  if (softmax != "vanilla" && softmax != "learnable")
    problems.problem(config.softmax_type, "is '{}'; modelled: vanilla, learnable", softmax);
  shape.attention_sinks = softmax == "learnable";
  const Text& window = config.window;
  if (!window || *window == "None" || *window == "null") return;
  const auto sides = two_numbers(*window);
  if (!sides) return problems.problem(window, "is '{}'; expected two numbers, as 128,0", *window);
  const auto [before, behind] = *sides;
  if (behind != 0)
    return problems.problem(window, "is '{}'; modelled: no tokens behind a token, as 128,0",
                            *window);
  if (before < 0 || before + 1 >= sequence) return;  // all of them
  shape.window = before + 1;
  const std::string skip = config.window_skip.value_or("");
  if (skip.empty() || skip == "None" || skip == "null") return;
  const ExpertLayers windows = parse_expert_layers(skip, shape.layers, OfEvery::all_but_last);
  if (!windows.problem.empty()) return problems.problem(config.window_skip, "{}", windows.problem);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer)
    if (!windows.pattern[static_cast<std::size_t>(layer)])
      shape.full_attention.layers.push_back(layer);
}

}  // namespace sim
