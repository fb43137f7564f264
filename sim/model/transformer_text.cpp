#include <fmt/format.h>

#include "sim/base/check.hpp"
#include "sim/config/yaml_text.hpp"
#include "sim/model/hybrid_file.hpp"
#include "sim/model/layer_sets.hpp"
#include "sim/model/transformer.hpp"
#include "sim/model/vision_file.hpp"

namespace sim {
namespace {

// The word of `biases`; the file knows no other sets of linear layers.
std::string_view biases_of(const TransformerShape& shape) {
  SIM_CHECK(shape.qkv_bias || !shape.projection_bias, shape.name);
  SIM_CHECK(shape.projection_bias || !shape.mlp_bias, shape.name);
  if (shape.mlp_bias) return "all";
  if (shape.projection_bias) return "attention";
  return shape.qkv_bias ? "qkv" : "none";
}

std::string boolean(bool value) {
  return value ? "true" : "false";
}

std::string experts_text(const TransformerShape& shape) {
  const Experts& experts = shape.experts;
  std::string text = fmt::format(
      "count: {}, per_token: {}, feed_forward: {}, shared_feed_forward: {}", experts.count,
      experts.per_token, experts.feed_forward, experts.shared_feed_forward);
  if (!shape.hybrid.exists())
    text += fmt::format(", first_layer: {}, every: {}", experts.first_layer, experts.every);
  if (experts.router_bias) text += ", router_bias: true";
  if (experts.shared_gate) text += ", shared_gate: true";
  if (experts.latent > 0) text += fmt::format(", latent: {}", experts.latent);
  if (experts.groups > 0)
    text +=
        fmt::format(", groups: {}, groups_per_token: {}", experts.groups, experts.groups_per_token);
  return fmt::format("{{{}}}", text);
}

std::string sparse_text(const SparseAttention& sparse, std::int64_t layers) {
  std::string text = fmt::format("index_heads: {}, index_dim: {}, top_keys: {}", sparse.index_heads,
                                 sparse.index_dim, sparse.top_keys);
  if (!sparse.indexers.empty())
    text += fmt::format(", indexers: {}", layer_set_text(sparse.indexers, layers));
  return fmt::format("{{{}}}", text);
}

// Adds the lines of keys that only newer families have.
template <class Line>
void add_family_lines(const TransformerShape& shape, const Line& line) {
  if (shape.qk_norm_whole) line(2, "qk_norm_over", "projection");
  if (!shape.qk_norm_scales) line(2, "qk_norm_scales", "false");
  if (shape.rotary_share != 1) line(2, "rotary_share", shape.rotary_share);
  const auto layers = [&](std::string_view key, const LayerSet& set) {
    if (!set.empty()) line(2, key, layer_set_text(set, shape.layers));
  };
  layers("without_positions", shape.without_positions);
  if (shape.window > 0) line(2, "window", shape.window);
  layers("full_attention", shape.full_attention);
  if (shape.attention_chunk > 0) line(2, "attention_chunk", shape.attention_chunk);
  const auto flag = [&](std::string_view key, bool value) {
    if (value) line(2, key, "true");
  };
  flag("attention_sinks", shape.attention_sinks);
  flag("attention_softcap", shape.attention_softcap);
  flag("attention_gate", shape.attention_gate);
  if (shape.sparse.exists()) line(2, "sparse_attention", sparse_text(shape.sparse, shape.layers));
  flag("embedding_scale", shape.embedding_scale);
  flag("residual_scale", shape.residual_scale);
  flag("logit_scale", shape.logit_scale);
  flag("logit_softcap", shape.logit_softcap);
  if (shape.mtp_layers > 0) line(2, "mtp_layers", shape.mtp_layers);
  if (!shape.mtp_kinds.empty()) line(2, "mtp_pattern", yaml_quoted(pattern_of(shape.mtp_kinds)));
  flag("mtp_repeated", shape.mtp_repeated);
  flag("mtp_sixteen_bits", shape.mtp_sixteen_bits);
}

}  // namespace

bool has_transformer_yaml(const TransformerShape& shape) {
  const bool with_vocabulary = shape.head == Head::masked_lm || shape.head == Head::pretraining;
  return (shape.qkv_bias || !shape.projection_bias) && (shape.projection_bias || !shape.mlp_bias) &&
         shape.head_bias == with_vocabulary;
}

std::string transformer_yaml(const TransformerShape& shape, std::size_t indent) {
  std::string text;
  const auto line = [&](std::size_t depth, std::string_view key, const auto& value) {
    text += fmt::format("{:{}}{}: {}\n", "", indent + depth, key, value);
  };
  line(0, "name", yaml_quoted(shape.name));
  line(0, "source", yaml_quoted(shape.source));
  text += fmt::format("{:{}}transformer:\n", "", indent);
  line(2, "family", yaml_quoted(shape.family));
  line(2, "layers", shape.layers);
  line(2, "hidden", shape.hidden);
  line(2, "heads", shape.heads);
  if (shape.latent.exists()) {
    line(2, "latent_attention",
         fmt::format("{{query_rank: {}, key_value_rank: {}, plain_dim: {}, rotary_dim: {}, "
                     "value_dim: {}}}",
                     shape.latent.query_rank, shape.latent.key_value_rank, shape.latent.plain_dim,
                     shape.latent.rotary_dim, shape.latent.value_dim));
  } else {
    line(2, "kv_heads", shape.kv_heads);
    line(2, "head_dim", shape.head_dim);
  }
  if (shape.feed_forward > 0) line(2, "feed_forward", shape.feed_forward);
  for (const HybridLine& own : hybrid_lines(shape.hybrid))
    line(2, own.key, own.value);
  if (shape.experts.count > 0) line(2, "experts", experts_text(shape));
  if (shape.has_image()) {
    line(2, "image",
         fmt::format("{{size: {}, patch: {}, channels: {}}}", shape.image.size, shape.image.patch,
                     shape.image.channels));
  } else {
    line(2, "vocabulary", shape.vocabulary);
    if (shape.max_sequence > 0) line(2, "max_sequence", shape.max_sequence);
    if (shape.token_types > 0) line(2, "token_types", shape.token_types);
  }
  line(2, "norm", word(shape.norm));
  line(2, "norm_placement", word(shape.norm_placement));
  line(2, "activation", word(shape.activation));
  line(2, "positions", word(shape.positions));
  line(2, "attention", word(shape.mask));
  line(2, "biases", biases_of(shape));
  line(2, "qk_norm", boolean(shape.qk_norm));
  add_family_lines(shape, line);
  line(2, "embedding_norm", boolean(shape.embedding_norm));
  line(2, "hidden_dropout", shape.mlp_dropout);
  line(2, "projection_dropout", shape.projection_dropout);
  line(2, "attention_dropout", shape.attention_dropout);
  line(2, "embedding_dropout", shape.embedding_dropout);
  line(2, "head", word(shape.head));
  if (shape.head == Head::classifier) line(2, "classes", shape.classes);
  line(2, "tied_head", boolean(shape.tied_head));
  if (!shape.vision.exists()) return text;
  line(2, "vision", vision_text(shape.vision));
  line(2, "projector", projector_text(shape.vision.projector));
  return text;
}

}  // namespace sim
