#include "sim/model/mixers.hpp"

#include <algorithm>
#include <cmath>

namespace sim {
namespace {

// Python's round(): halves to even.
std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::nearbyint(value));
}

char letter_of(const LayerKind& kind) {
  const bool alone = kind.mixer == Mixer::none || kind.feed_forward == FeedForward::none;
  if (!alone || kind.kv_heads != 0 || kind.width != 0) return 0;
  switch (kind.mixer) {
    case Mixer::attention:
      return '*';
    case Mixer::mamba2:
      return 'M';
    case Mixer::gated_delta_net:
      return 'G';
    case Mixer::linear:
    case Mixer::attention_mamba2:
      return 0;
    case Mixer::none:
      break;
  }
  if (kind.feed_forward == FeedForward::mlp) return '-';
  return kind.feed_forward == FeedForward::experts ? 'E' : '\0';
}

}  // namespace

bool Hybrid::has(Mixer mixer) const {
  const bool part = mixer == Mixer::attention || mixer == Mixer::mamba2;
  return std::any_of(layers.begin(), layers.end(), [&](const LayerKind& kind) {
    return kind.mixer == mixer || (part && kind.mixer == Mixer::attention_mamba2);
  });
}

bool Hybrid::has(FeedForward feed_forward) const {
  return std::any_of(layers.begin(), layers.end(),
                     [&](const LayerKind& kind) { return kind.feed_forward == feed_forward; });
}

std::vector<LayerKind> Hybrid::kinds() const {
  std::vector<LayerKind> found;
  for (const LayerKind& kind : layers)
    if (std::find(found.begin(), found.end(), kind) == found.end()) found.push_back(kind);
  return found;
}

bool append_letter(std::vector<LayerKind>& layers, char letter) {
  LayerKind kind{.mixer = Mixer::none, .feed_forward = FeedForward::none};
  switch (letter) {
    case 'M':
      kind.mixer = Mixer::mamba2;
      break;
    case 'G':
      kind.mixer = Mixer::gated_delta_net;
      break;
    case '*':
      kind.mixer = Mixer::attention;
      break;
    case '-':
      kind.feed_forward = FeedForward::mlp;
      break;
    case 'E':
      kind.feed_forward = FeedForward::experts;
      break;
    default:
      return false;
  }
  layers.push_back(kind);
  return true;
}

std::string pattern_of(const std::vector<LayerKind>& layers) {
  std::string pattern;
  for (const LayerKind& kind : layers) {
    const char letter = letter_of(kind);
    if (letter == 0) return {};
    pattern += letter;
  }
  return pattern;
}

// core/models/hybrid/hybrid_layer_allocation.py: attention evenly between Mamba-2 layers, which
// stand at both ends; then MLPs evenly in the place of Mamba-2 layers.
std::string pattern_from_ratios(std::int64_t layers, double attention, double mlp) {
  const auto count = static_cast<double>(layers);
  const std::int64_t attentions = rounded(count * attention), mlps = rounded(count * mlp);
  std::string pattern(static_cast<std::size_t>(layers), 'M');
  const auto spread = [&](char letter, double distance) {
    double x = distance;
    for (char& layer : pattern) {
      if (layer != 'M') continue;
      if (x < 0.5) {
        layer = letter;
        x += distance;
      } else {
        x -= 1;
      }
    }
  };
  const auto mixers = static_cast<double>(layers - attentions);
  spread('*', mixers / static_cast<double>(attentions + 1));
  if (mlps > 0) spread('-', (mixers - static_cast<double>(mlps)) / static_cast<double>(mlps));
  return pattern;
}

}  // namespace sim
