// Shapes that several tests build models of.
#pragma once

#include "sim/model/transformer.hpp"

namespace sim {

// The layer of Korthikanti et al. 2022: LayerNorm, biases, GELU, dropout, feed-forward 4 h.
inline TransformerShape classic_gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                                    std::int64_t vocabulary, std::int64_t positions) {
  TransformerShape shape;
  shape.name = "classic";
  shape.layers = layers;
  shape.hidden = hidden;
  shape.heads = heads;
  shape.kv_heads = heads;
  shape.head_dim = hidden / heads;
  shape.feed_forward = 4 * hidden;
  shape.vocabulary = vocabulary;
  shape.max_sequence = positions;
  shape.qkv_bias = shape.projection_bias = shape.mlp_bias = true;
  shape.tied_head = true;
  shape.projection_dropout = shape.mlp_dropout = 0.1;
  shape.attention_dropout = shape.embedding_dropout = 0.1;
  return shape;
}

// Llama: RMSNorm, grouped-query attention, gated MLP, rotary positions, no biases, no dropout.
inline TransformerShape llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                              std::int64_t kv_heads, std::int64_t feed_forward) {
  TransformerShape shape;
  shape.name = "llama";
  shape.layers = layers;
  shape.hidden = hidden;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_dim = hidden / heads;
  shape.feed_forward = feed_forward;
  shape.vocabulary = 32'000;
  shape.norm = NormKind::rms;
  shape.activation = Activation::swiglu;
  shape.positions = Positions::rotary;
  return shape;
}

}  // namespace sim
