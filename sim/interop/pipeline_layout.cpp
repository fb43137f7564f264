#include <fmt/format.h>

#include <algorithm>

#include "sim/interop/megatron/megatron_config.hpp"

namespace sim {
namespace {

constexpr std::size_t longest = 100'000;  // more stages and layers than any model has

// "(ab)*3" and "a*3", once each, the brackets first: Megatron-LM replaces by two regular
// expressions, r'\(([^)]+)\)\*(\d+)' and r'(.)\*(\d+)', so brackets do not nest.
class Unroller {
 public:
  explicit Unroller(std::string& problem) : problem_{problem} {}

  std::string brackets(std::string_view text) const {
    std::string result;
    while (!text.empty()) {
      const std::size_t close = text.find(')');
      if (text.front() == '(' && close != std::string_view::npos && close > 1) {
        const std::string_view inner = text.substr(1, close - 1);
        text.remove_prefix(close + 1);
        repeat(inner, text, result);
      } else {
        result += text.front();
        text.remove_prefix(1);
      }
    }
    return result;
  }

  std::string characters(std::string_view text) const {
    std::string result;
    while (!text.empty()) {
      const std::string_view one = text.substr(0, 1);
      text.remove_prefix(1);
      repeat(one, text, result);
    }
    return result;
  }

 private:
  // Appends `part` as often as a "*N" at the front of `rest` says, which it takes off.
  void repeat(std::string_view part, std::string_view& rest, std::string& result) const {
    std::size_t times = 1;
    if (rest.size() > 1 && rest.front() == '*' && rest[1] >= '0' && rest[1] <= '9') {
      times = 0;
      for (rest.remove_prefix(1); !rest.empty() && rest.front() >= '0' && rest.front() <= '9';
           rest.remove_prefix(1))
        times = std::min(longest, times * 10 + static_cast<std::size_t>(rest.front() - '0'));
    }
    if (result.size() + part.size() * times > longest) {
      problem_ = "describes more than 100000 layers and stages";
      return;
    }
    for (std::size_t i = 0; i < times; ++i)
      result += part;
  }

  std::string& problem_;
};

}  // namespace

std::string pipeline_layout_text(const std::vector<int>& layers_per_chunk,
                                 std::int64_t mtp_layers) {
  std::string text = "E";
  for (std::size_t i = 0; i < layers_per_chunk.size(); ++i) {
    if (i > 0) text += '|';
    const int layers = layers_per_chunk[i];
    if (layers > 0) text += layers > 1 ? fmt::format("t*{}", layers) : "t";
  }
  return text + std::string(static_cast<std::size_t>(mtp_layers), 'm') + "L";
}

PipelineLayout parse_pipeline_layout(std::string_view text) {
  PipelineLayout layout;
  std::string plain{text};
  std::erase(plain, ',');
  const Unroller unroller{layout.problem};
  plain = unroller.characters(unroller.brackets(plain));
  if (!layout.problem.empty()) return layout;
  const std::string whole = plain;
  if (whole.empty() || whole.front() != 'E' || whole.back() != 'L' ||
      std::ranges::count(whole, 'E') != 1 || std::ranges::count(whole, 'L') != 1) {
    layout.problem = "begins with one E (embedding) and ends with one L (loss)";
    return layout;
  }
  layout.layers_per_chunk.push_back(0);
  for (const char c : whole) {
    if (c == '|') {
      if (layout.mtp_layers > 0)
        layout.problem =
            "has layers of multi-token prediction (m) before the last stage; modelled: with the "
            "loss";
      layout.layers_per_chunk.push_back(0);
    } else if (c == 't') {
      ++layout.layers_per_chunk.back();
    } else if (c == 'm') {
      ++layout.mtp_layers;
    } else if (c != 'E' && c != 'L') {
      layout.problem = fmt::format("has '{}'; known: E, t, m, L, |, x*n, (...)*n", c);
    }
  }
  return layout;
}

}  // namespace sim
