// Sliding windows in Hugging Face config.json: which layers have one, by the rules of transformers'
// configuration classes (configuration_*.py) where the file does not list `layer_types`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "sim/model/hugging_face/hugging_face_fields.hpp"

namespace sim {
namespace {

using Family = HuggingFaceFamily;

// Whether a layer has the window where no list says so.
using Slides = bool (*)(std::int64_t layer, std::int64_t every);
bool all_slide(std::int64_t, std::int64_t) {
  return true;
}
bool all_but_each_nth(std::int64_t layer, std::int64_t every) {
  return (layer + 1) % every != 0;
}
bool from_nth_on(std::int64_t layer, std::int64_t first) {
  return layer >= first;
}

struct WindowRule {
  Family family;
  const char* switch_key;  // null: no switch; else a boolean without which there is no window
  std::int64_t window;     // where the file says nothing; 0: none
  Slides slides;
  const char* number_key;  // of what `slides` takes; null: not in any file
  std::int64_t number;
};
constexpr std::array rules{
    WindowRule{Family::mistral, nullptr, 0, all_slide, nullptr, 0},
    WindowRule{Family::ministral3, nullptr, 0, all_slide, nullptr, 0},
    WindowRule{Family::mixtral, nullptr, 0, all_slide, nullptr, 0},
    WindowRule{Family::phi3, nullptr, 0, all_slide, nullptr, 0},
    WindowRule{Family::qwen2, "use_sliding_window", 0, from_nth_on, "max_window_layers", 28},
    WindowRule{Family::qwen2_moe, "use_sliding_window", 0, from_nth_on, "max_window_layers", 28},
    WindowRule{Family::qwen3, "use_sliding_window", 0, from_nth_on, "max_window_layers", 28},
    WindowRule{Family::qwen3_moe, "use_sliding_window", 0, all_slide, nullptr, 0},
    WindowRule{Family::smollm3, "use_sliding_window", 0, all_but_each_nth, nullptr, 1},
    WindowRule{Family::olmo3, nullptr, 4096, all_but_each_nth, nullptr, 4},
    WindowRule{Family::gemma2, nullptr, 4096, all_but_each_nth, nullptr, 2},
    WindowRule{Family::gemma3, nullptr, 4096, all_but_each_nth, "sliding_window_pattern", 6},
    WindowRule{Family::gpt_oss, nullptr, 128, all_but_each_nth, nullptr, 2},
};

const WindowRule* rule_of(Family family) {
  for (const WindowRule& rule : rules)
    if (rule.family == family) return &rule;
  return nullptr;
}

std::vector<bool> listed_layers(const ValueReader& types, std::int64_t layers) {
  const std::vector<ValueReader> list = types.list();
  if (static_cast<std::int64_t>(list.size()) < layers)
    types.problem(fmt::format("has {} layers, num_hidden_layers is {}", list.size(), layers));
  std::vector<bool> slide(static_cast<std::size_t>(layers));
  for (std::size_t layer = 0; layer < list.size(); ++layer) {
    const std::string text = list[layer].text();
    if (text == "sliding_attention" && layer < slide.size()) slide[layer] = true;
    if (text != "sliding_attention" && text != "full_attention")
      list[layer].problem(
          fmt::format("unknown layer type \"{}\"; known: full_attention, sliding_attention", text));
  }
  return slide;
}

std::vector<bool> layers_by_rule(const HuggingFaceFields& fields, const WindowRule& rule,
                                 std::int64_t layers) {
  std::int64_t number = rule.number;
  if (rule.number_key != nullptr && fields.in().has(rule.number_key))
    number = fields.in().integer(rule.number_key, {.min = rule.slides == from_nth_on ? 0 : 1,
                                                   .max = transformer_limits::rows});
  if (rule.slides == all_but_each_nth) number = std::max<std::int64_t>(1, number);
  std::vector<bool> slide;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    slide.push_back(rule.slides(layer, number));
  return slide;
}

}  // namespace

void read_window(const HuggingFaceFields& fields, Family family, TransformerShape& shape) {
  const WindowRule* rule = rule_of(family);
  const ObjectReader& in = fields.in();
  if (rule == nullptr) return;
  std::vector<bool> slide;
  if (const auto types = in.find("layer_types"))
    slide = listed_layers(*types, shape.layers);
  else
    slide = layers_by_rule(fields, *rule, shape.layers);
  if (rule->switch_key != nullptr && !fields.flag(rule->switch_key, false)) return;
  const std::int64_t none = fields.is_null("sliding_window") ? 0 : rule->window;
  const std::int64_t window =
      in.has("sliding_window")
          ? in.integer("sliding_window", {.min = 1, .max = transformer_limits::rows})
          : none;
  LayerSet full;
  for (std::size_t layer = 0; layer < slide.size(); ++layer)
    if (!slide[layer]) full.layers.push_back(static_cast<std::int64_t>(layer));
  if (window == 0 || full.layers.size() == slide.size()) return;
  shape.window = window;
  shape.full_attention = std::move(full);
}

}  // namespace sim
