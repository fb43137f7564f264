#include <array>

#include "sim/interop/torchtitan/torchtitan.hpp"

namespace sim {
namespace {

struct Flavor {
  const char* model;
  const char* name;
  std::int64_t layers, hidden, heads, kv_heads, head_dim, feed_forward, vocabulary;
  bool qk_norm = false, tied = false;
  Experts experts{};
  LatentAttention latent{};
  std::int64_t window = 0;       // of every other layer, the first included; gpt-oss alone
  std::int64_t value_heads = 0;  // of gated delta nets, three of four layers; Qwen3.5 alone
};

constexpr LatentAttention latent(std::int64_t query_rank) {
  return {.query_rank = query_rank,
          .key_value_rank = 512,
          .plain_dim = 128,
          .rotary_dim = 64,
          .value_dim = 128};
}
constexpr Experts all_layers(std::int64_t count, std::int64_t per_token, std::int64_t width) {
  return {.count = count, .per_token = per_token, .feed_forward = width};
}

// One that every token passes, as wide as the others, with a gate.
constexpr Experts gated(std::int64_t count, std::int64_t per_token, std::int64_t width) {
  return {.count = count,
          .per_token = per_token,
          .feed_forward = width,
          .shared_feed_forward = width,
          .shared_gate = true};
}
constexpr Flavor delta(const char* name, std::int64_t layers, std::int64_t hidden,
                       std::int64_t heads, std::int64_t kv_heads, std::int64_t value_heads,
                       std::int64_t feed_forward, const Experts& experts = {}) {
  return {.model = "qwen3_5",
          .name = name,
          .layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = 256,
          .feed_forward = feed_forward,
          .vocabulary = 248320,
          .qk_norm = true,
          .experts = experts,
          .value_heads = value_heads};
}

// pytorch/torchtitan, torchtitan/models/llama3/__init__.py (commit 00f555e1; feed-forward widths as
// compute_ffn_hidden_dim() gives them, vocabulary of the tokenizer), models/qwen3/__init__.py
// (commit 0310b491), models/deepseek_v3, qwen3 (mixtures) and gpt_oss/__init__.py (commit
// b5bcd76c; the same in v0.2.2, 73a0e697), models/llama4/__init__.py (73a0e697; widths as
// model/model.py makes them: 8,192 of an expert, 16,384 without experts),
// models/qwen3_5/__init__.py (b5bcd76c), without the vision encoder.
constexpr std::array flavors{
    Flavor{"llama3", "8B", 32, 4096, 32, 8, 128, 14336, 128256},
    Flavor{"llama3", "70B", 80, 8192, 64, 8, 128, 28672, 128256},
    Flavor{"llama3", "405B", 126, 16384, 128, 8, 128, 53248, 128256},
    Flavor{"qwen3", "0.6B", 28, 1024, 16, 8, 128, 3072, 151936, true, true},
    Flavor{"qwen3", "1.7B", 28, 2048, 16, 8, 128, 6144, 151936, true, true},
    Flavor{"qwen3", "4B", 36, 2560, 32, 8, 128, 9728, 151936, true, true},
    Flavor{"qwen3", "8B", 36, 4096, 32, 8, 128, 12288, 151936, true},
    Flavor{"qwen3", "14B", 40, 5120, 40, 8, 128, 17408, 151936, true},
    Flavor{"qwen3", "32B", 64, 5120, 64, 8, 128, 25600, 151936, true},
    Flavor{.model = "qwen3",
           .name = "30B-A3B",
           .layers = 48,
           .hidden = 2048,
           .heads = 32,
           .kv_heads = 4,
           .head_dim = 128,
           .feed_forward = 6144,
           .vocabulary = 151936,
           .qk_norm = true,
           .experts = all_layers(128, 8, 768)},
    Flavor{.model = "qwen3",
           .name = "235B-A22B",
           .layers = 94,
           .hidden = 4096,
           .heads = 64,
           .kv_heads = 4,
           .head_dim = 128,
           .feed_forward = 12288,
           .vocabulary = 151936,
           .qk_norm = true,
           .experts = all_layers(128, 8, 1536)},
    Flavor{.model = "deepseek_v3",
           .name = "16B",
           .layers = 27,
           .hidden = 2048,
           .heads = 16,
           .kv_heads = 16,
           .head_dim = 192,
           .feed_forward = 10944,
           .vocabulary = 102400,
           .experts = {.count = 64,
                       .per_token = 6,
                       .feed_forward = 1408,
                       .shared_feed_forward = 2816,
                       .first_layer = 1},
           .latent = latent(0)},
    Flavor{.model = "deepseek_v3",
           .name = "236B",
           .layers = 60,
           .hidden = 5120,
           .heads = 128,
           .kv_heads = 128,
           .head_dim = 192,
           .feed_forward = 12288,
           .vocabulary = 102400,
           .experts = {.count = 160,
                       .per_token = 6,
                       .feed_forward = 1536,
                       .shared_feed_forward = 3072,
                       .first_layer = 1,
                       .groups = 8,
                       .groups_per_token = 3},
           .latent = latent(1536)},
    Flavor{.model = "deepseek_v3",
           .name = "671B",
           .layers = 61,
           .hidden = 7168,
           .heads = 128,
           .kv_heads = 128,
           .head_dim = 192,
           .feed_forward = 18432,
           .vocabulary = 129280,
           .experts = {.count = 256,
                       .per_token = 8,
                       .feed_forward = 2048,
                       .shared_feed_forward = 2048,
                       .first_layer = 3,
                       .groups = 8,
                       .groups_per_token = 4},
           .latent = latent(1536)},
    Flavor{.model = "llama4",
           .name = "17bx16e",
           .layers = 48,
           .hidden = 5120,
           .heads = 40,
           .kv_heads = 8,
           .head_dim = 128,
           .feed_forward = 16384,
           .vocabulary = 202048,
           .experts =
               {.count = 16, .per_token = 1, .feed_forward = 8192, .shared_feed_forward = 8192}},
    Flavor{.model = "llama4",
           .name = "17bx128e",
           .layers = 48,
           .hidden = 5120,
           .heads = 40,
           .kv_heads = 8,
           .head_dim = 128,
           .feed_forward = 16384,
           .vocabulary = 202048,
           .experts = {.count = 128,
                       .per_token = 1,
                       .feed_forward = 8192,
                       .shared_feed_forward = 8192,
                       .first_layer = 1,
                       .every = 2}},
    Flavor{.model = "gpt_oss",
           .name = "20b",
           .layers = 24,
           .hidden = 2880,
           .heads = 64,
           .kv_heads = 8,
           .head_dim = 64,
           .feed_forward = 2880,
           .vocabulary = 201088,
           .experts = all_layers(32, 4, 2880),
           .window = 128},
    Flavor{.model = "gpt_oss",
           .name = "120b",
           .layers = 36,
           .hidden = 2880,
           .heads = 64,
           .kv_heads = 8,
           .head_dim = 64,
           .feed_forward = 2880,
           .vocabulary = 201088,
           .experts = all_layers(128, 4, 2880),
           .window = 128},
    delta("0.8B", 24, 1024, 8, 2, 16, 3584),
    delta("2B", 24, 2048, 8, 2, 16, 6144),
    delta("4B", 32, 2560, 16, 4, 32, 9216),
    delta("9B", 32, 4096, 16, 4, 32, 12288),
    delta("27B", 64, 5120, 24, 4, 48, 17408),
    delta("35B-A3B", 40, 2048, 16, 2, 32, 0, gated(256, 8, 512)),
    delta("122B-A10B", 48, 3072, 32, 2, 64, 0, gated(256, 8, 1024)),
    delta("397B-A17B", 60, 4096, 32, 2, 64, 0, gated(512, 10, 1024)),
};

// models/gpt_oss: biases everywhere but at the head, sinks, windows in even layers.
void add_of_gpt_oss(const Flavor& flavor, TransformerShape& shape) {
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = shape.experts.router_bias = true;
  shape.attention_sinks = true;
  shape.window = flavor.window;
  for (std::int64_t layer = 1; layer < shape.layers; layer += 2)
    shape.full_attention.layers.push_back(layer);
}

// models/qwen3_5: full attention in each fourth layer, with a gate and positions of a quarter.
void add_of_qwen3_5(const Flavor& flavor, TransformerShape& shape) {
  shape.attention_gate = true;
  shape.rotary_share = 0.25;
  shape.hybrid.delta_net = {.key_heads = 16, .value_heads = flavor.value_heads};
  const bool mixture = flavor.experts.count > 0;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer)
    shape.hybrid.layers.push_back(
        {.mixer = layer % 4 == 3 ? Mixer::attention : Mixer::gated_delta_net,
         .feed_forward = mixture ? FeedForward::experts : FeedForward::mlp});
}

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
  shape.experts = flavor.experts;
  shape.latent = flavor.latent;
  if (flavor.window > 0) add_of_gpt_oss(flavor, shape);
  if (flavor.value_heads > 0) add_of_qwen3_5(flavor, shape);
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

bool is_torchtitan_model(std::string_view model) {
  for (const Flavor& known : flavors)
    if (model == known.model) return true;
  return false;
}

}  // namespace sim
