#include <array>

#include "sim/interop/torchtitan.hpp"

namespace sim {
namespace {

struct Flavor {
  const char* model;
  const char* name;
  std::int64_t layers, hidden, heads, kv_heads, head_dim, feed_forward, vocabulary;
  bool qk_norm, tied;
};

// pytorch/torchtitan, torchtitan/models/llama3/__init__.py (commit 00f555e1; feed-forward widths as
// compute_ffn_hidden_dim() gives them, vocabulary of the tokenizer) and models/qwen3/__init__.py
// (commit 0310b491).
constexpr std::array flavors{
    Flavor{"llama3", "8B", 32, 4096, 32, 8, 128, 14336, 128256, false, false},
    Flavor{"llama3", "70B", 80, 8192, 64, 8, 128, 28672, 128256, false, false},
    Flavor{"llama3", "405B", 126, 16384, 128, 8, 128, 53248, 128256, false, false},
    Flavor{"qwen3", "0.6B", 28, 1024, 16, 8, 128, 3072, 151936, true, true},
    Flavor{"qwen3", "1.7B", 28, 2048, 16, 8, 128, 6144, 151936, true, true},
    Flavor{"qwen3", "4B", 36, 2560, 32, 8, 128, 9728, 151936, true, true},
    Flavor{"qwen3", "8B", 36, 4096, 32, 8, 128, 12288, 151936, true, false},
    Flavor{"qwen3", "14B", 40, 5120, 40, 8, 128, 17408, 151936, true, false},
    Flavor{"qwen3", "32B", 64, 5120, 64, 8, 128, 25600, 151936, true, false},
};

TransformerShape shape_of(const Flavor& flavor) {
  TransformerShape shape;
  shape.name = std::string{flavor.model} + "-" + flavor.name;
  shape.family = flavor.model;
  shape.source = "torchtitan, models/" + std::string{flavor.model};
  shape.layers = flavor.layers;
  shape.hidden = flavor.hidden;
  shape.heads = flavor.heads;
  shape.kv_heads = flavor.kv_heads;
  shape.head_dim = flavor.head_dim;
  shape.feed_forward = flavor.feed_forward;
  shape.vocabulary = flavor.vocabulary;
  shape.norm = NormKind::rms;
  shape.activation = Activation::swiglu;
  shape.positions = Positions::rotary;
  shape.qk_norm = flavor.qk_norm;
  shape.tied_head = flavor.tied;
  return shape;
}

}  // namespace

std::optional<TransformerShape> torchtitan_shape(std::string_view model, std::string_view flavor) {
  for (const Flavor& known : flavors)
    if (model == known.model && flavor == known.name) return shape_of(known);
  return std::nullopt;
}

std::optional<TorchtitanFlavor> torchtitan_flavor(const TransformerShape& shape) {
  for (const Flavor& known : flavors)
    if (same_shape(shape, shape_of(known))) return TorchtitanFlavor{known.model, known.name};
  return std::nullopt;
}

std::string torchtitan_flavors() {
  std::string text;
  for (const Flavor& known : flavors)
    text += (text.empty() ? "" : ", ") + std::string{known.model} + " " + known.name;
  return text;
}

}  // namespace sim
