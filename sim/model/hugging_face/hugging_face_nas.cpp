// Models that neural architecture search made of Llama, in Hugging Face config.json: nemotron-nas,
// by the configuration_decilm.py and modeling_decilm.py beside its weights
// (nvidia/Llama-3_3-Nemotron-Super-49B-v1).
#include <algorithm>

#include "sim/model/hugging_face/hugging_face_fields.hpp"

namespace sim {
namespace {

using Fields = HuggingFaceFields;
namespace limits = transformer_limits;

// DeciLMConfig: _ffn_mult_to_intermediate_size, _find_multiple.
std::int64_t width_of(double multiple, std::int64_t hidden) {
  const auto width = static_cast<std::int64_t>(2 * multiple * static_cast<double>(hidden) / 3);
  return (width + 255) / 256 * 256;
}

void refuse_window(const ObjectReader& attention) {
  for (const char* key : {"window_length", "num_sink_tokens", "sparsify", "mamba"})
    if (attention.has(key))
      attention.problem(key, fmt::format("\"{}\" of a block is not supported", key));
}

LayerKind read_block(const ObjectReader& block, const TransformerShape& shape) {
  LayerKind kind;
  block.ignore_unknown();
  const ObjectReader attention = block.object("attention"), ffn = block.object("ffn");
  attention.ignore_unknown();
  ffn.ignore_unknown();
  if (attention.boolean_or("no_op", false)) {
    kind.mixer = Mixer::none;
  } else if (attention.boolean_or("replace_with_linear", false)) {
    kind.mixer = Mixer::linear;
  } else {
    refuse_window(attention);
    const std::int64_t group = std::max<std::int64_t>(
        1, attention.integer("n_heads_in_group", {.min = 1, .max = limits::heads}));
    kind.kv_heads = shape.heads / group;
    if (shape.heads % group != 0)
      attention.problem("n_heads_in_group",
                        fmt::format("groups of {} heads do not make {}", group, shape.heads));
  }
  if (ffn.boolean_or("no_op", false)) {
    kind.feed_forward = FeedForward::none;
  } else if (ffn.boolean_or("replace_with_linear", false)) {
    kind.feed_forward = FeedForward::linear;
  } else {
    kind.width = width_of(ffn.real("ffn_mult", {.min = 1e-3, .max = 100}), shape.hidden);
  }
  return kind;
}

// The most frequent value is the model's; layers that have it say nothing.
void lift(std::vector<LayerKind>& layers, std::int64_t LayerKind::*member, std::int64_t& common) {
  std::vector<std::int64_t> values;
  for (const LayerKind& kind : layers)
    if (kind.*member > 0) values.push_back(kind.*member);
  std::sort(values.begin(), values.end());
  std::size_t most = 0;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t next = i;
    while (next < values.size() && values[next] == values[i])
      ++next;
    if (next - i > most) {
      most = next - i;
      common = values[i];
    }
    i = next;
  }
  for (LayerKind& kind : layers)
    if (kind.*member == common) kind.*member = 0;
}

}  // namespace

void read_nemotron_nas(const Fields& fields, TransformerShape& shape,
                       std::vector<std::string>& notes) {
  const ObjectReader& in = fields.in();
  shape.hidden = fields.size({"hidden_size"}, limits::hidden);
  shape.heads = fields.size({"num_attention_heads"}, limits::heads);
  shape.kv_heads = shape.heads;
  read_head_dim(fields, {"num_attention_heads"}, shape);
  shape.qkv_bias = shape.projection_bias = fields.flag("attention_bias", false);
  shape.mlp_bias = fields.flag("mlp_bias", false);
  shape.vocabulary = fields.size({"vocab_size"}, limits::rows);
  shape.norm = NormKind::rms;
  shape.positions = Positions::rotary;
  shape.activation = gated_activation(in, "hidden_act", "silu");
  shape.tied_head = fields.flag("tie_word_embeddings", false);
  shape.attention_dropout = fields.dropout({"attention_dropout"}, 0);
  std::vector<LayerKind>& layers = shape.hybrid.layers;
  std::int64_t empty = 0;
  for (const ValueReader& block : in.list("block_configs")) {
    const LayerKind kind = read_block(block.object(), shape);
    if (kind.mixer == Mixer::none && kind.feed_forward == FeedForward::none)
      ++empty;
    else
      layers.push_back(kind);
  }
  const std::int64_t listed = static_cast<std::int64_t>(layers.size()) + empty;
  const std::int64_t said =
      fields.size_or({"num_hidden_layers"}, std::max<std::int64_t>(1, listed), limits::layers);
  if (said != listed || layers.empty())
    in.problem("block_configs", fmt::format("has {} blocks, of which {} do something; "
                                            "num_hidden_layers is {}",
                                            listed, layers.size(), said));
  if (empty > 0)
    notes.push_back(fmt::format("block_configs: {} layers that do nothing are left out", empty));
  shape.layers = std::max<std::int64_t>(1, static_cast<std::int64_t>(layers.size()));
  lift(layers, &LayerKind::kv_heads, shape.kv_heads);
  lift(layers, &LayerKind::width, shape.feed_forward);
  check_hybrid_layers(in, "block_configs", shape);
}

}  // namespace sim
