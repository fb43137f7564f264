// A transformer by its shape: what the YAML description, every Hugging Face family and the files of
// training frameworks come down to.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/model/mixers.hpp"

namespace sim {

enum class NormKind : std::uint8_t { layer, layer_no_bias, rms };
constexpr auto words_of(NormKind) {
  return std::array{Word{NormKind::layer, "layer"}, Word{NormKind::layer_no_bias, "layer_no_bias"},
                    Word{NormKind::rms, "rms"}};
}

// NormPlacement, for a branch f of the layer and the residual x: pre x + f(norm(x)), post norm(x +
// f(x)), reordered x + norm(f(x)) (OLMo 2, arXiv:2501.00656, section 3.1), sandwich x +
// norm(f(norm(x))) (Gemma 2, arXiv:2408.00118, section 2). All but post have a norm behind the last
// layer.
enum class NormPlacement : std::uint8_t { pre, post, reordered, sandwich };
constexpr auto words_of(NormPlacement) {
  return std::array{Word{NormPlacement::pre, "pre"}, Word{NormPlacement::post, "post"},
                    Word{NormPlacement::reordered, "reordered"},
                    Word{NormPlacement::sandwich, "sandwich"}};
}
constexpr bool norms_input(NormPlacement placement) {
  return placement == NormPlacement::pre || placement == NormPlacement::sandwich;
}
constexpr bool norms_branch(NormPlacement placement) {
  return placement == NormPlacement::reordered || placement == NormPlacement::sandwich;
}

enum class Activation : std::uint8_t { gelu, relu, squared_relu, swiglu, geglu };
constexpr auto words_of(Activation) {
  return std::array{Word{Activation::gelu, "gelu"}, Word{Activation::relu, "relu"},
                    Word{Activation::squared_relu, "squared_relu"},
                    Word{Activation::swiglu, "swiglu"}, Word{Activation::geglu, "geglu"}};
}
constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}

enum class Positions : std::uint8_t { rotary, learned, alibi, none };
constexpr auto words_of(Positions) {
  return std::array{Word{Positions::rotary, "rotary"}, Word{Positions::learned, "learned"},
                    Word{Positions::alibi, "alibi"}, Word{Positions::none, "none"}};
}

enum class AttentionMask : std::uint8_t { causal, bidirectional };
constexpr auto words_of(AttentionMask) {
  return std::array{Word{AttentionMask::causal, "causal"},
                    Word{AttentionMask::bidirectional, "bidirectional"}};
}

// Head is the part of a model behind its last layer.
enum class Head : std::uint8_t {
  language_model,  // head over the vocabulary, loss at every token
  masked_lm,       // BERT: transform, norm, head with bias, loss at every token
  pretraining,     // BERT: masked_lm, pooler and next-sentence classifier
  pooler,          // BERT: dense layer on the first token
  classifier,      // ViT: classes from the first token, loss once per image
  none,            // nothing
};
constexpr auto words_of(Head) {
  return std::array{
      Word{Head::language_model, "language_model"}, Word{Head::masked_lm, "masked_lm"},
      Word{Head::pretraining, "pretraining"},       Word{Head::pooler, "pooler"},
      Word{Head::classifier, "classifier"},         Word{Head::none, "none"}};
}

struct ImageInput {  // ViT: the input is cut into patches instead of being looked up
  std::int64_t size = 0;
  std::int64_t patch = 0;
  std::int64_t channels = 3;
  bool operator==(const ImageInput&) const = default;
  std::int64_t tokens() const { return (size / patch) * (size / patch) + 1; }  // + class token
};

// Mixture of experts (Shazeer et al. 2017; Fedus et al. 2022): in the layers that have it, a token
// passes `per_token` of `count` MLPs in the place of the one.
struct Experts {
  std::int64_t count = 0;  // 0: no layer has it
  std::int64_t per_token = 0;
  std::int64_t feed_forward = 0;         // of each
  std::int64_t shared_feed_forward = 0;  // of those that every token passes, together; 0: none
  std::int64_t first_layer = 0;          // the layers before it have an MLP
  std::int64_t every = 1;                // from there on, each n-th layer has experts
  bool router_bias = false;
  bool shared_gate = false;  // each token weighs what the shared experts make (Qwen2Moe)
  // Width of the state that routed experts work on, between two linears that all tokens pass
  // (Nemotron 3 Super and Ultra). 0: the hidden state itself.
  std::int64_t latent = 0;
  // A token chooses among the experts of so many groups of them, which it chooses first
  // (DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2). 0: all experts are one group.
  std::int64_t groups = 0, groups_per_token = 0;
  bool in_layer(std::int64_t layer) const {
    return count > 0 && layer >= first_layer && (layer - first_layer) % every == 0;
  }
  bool operator==(const Experts&) const = default;
};

// Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1): queries, and keys
// together with values, are products of narrow vectors; each head's queries and keys have a part
// without and a part with positions, of which that of the keys is shared by all heads.
struct LatentAttention {
  std::int64_t query_rank = 0;      // 0: queries are products of the hidden state
  std::int64_t key_value_rank = 0;  // 0: no latent attention
  std::int64_t plain_dim = 0;       // of a head, without positions
  std::int64_t rotary_dim = 0;      // with them
  std::int64_t value_dim = 0;
  bool exists() const { return key_value_rank > 0; }
  bool operator==(const LatentAttention&) const = default;
};

// Some layers, by their numbers from 0, in ascending order.
struct LayerSet {
  std::vector<std::int64_t> layers;
  bool has(std::int64_t layer) const {
    return std::binary_search(layers.begin(), layers.end(), layer);
  }
  bool empty() const { return layers.empty(); }
  bool operator==(const LayerSet&) const = default;
};

// Sparse attention of DeepSeek-V3.2 (arXiv:2512.02556, section 2.1): an indexer of its own narrow
// queries and one key scores all tokens before a query, which attends to the best of them alone.
struct SparseAttention {
  std::int64_t index_heads = 0;  // 0: attention to all tokens
  std::int64_t index_dim = 128;
  std::int64_t top_keys = 2048;
  // The layers that choose; each other one takes what the last of them before it chose (GLM-5.2,
  // transformers' models/glm_moe_dsa, indexer_types). Empty: all choose.
  LayerSet indexers{};
  bool reuses_choice = false;  // of the shape of one layer: it is such an other one
  bool exists() const { return index_heads > 0; }
  bool chooses(std::int64_t layer) const { return indexers.empty() || indexers.has(layer); }
  bool operator==(const SparseAttention&) const = default;
};

// Projector makes tokens of a language model of what a vision encoder gives: a norm, linears with a
// GELU between them.
struct Projector {
  std::int64_t merge = 1;  // edge of the square of patches that becomes one token
  bool pools = false;      // by their mean (Gemma 3); else they stand side by side
  bool has_norm = true;
  NormKind norm = NormKind::layer;
  std::vector<std::int64_t> widths{};  // outputs of the linears before the last one
  bool biases = true;
  // Further projectors, on the outputs of so many layers of the encoder, added to image tokens in
  // the first layers of the language model (Qwen3-VL, arXiv:2511.21631, section 2, DeepStack).
  std::int64_t deepstack = 0;
  bool operator==(const Projector&) const = default;
};

// VisionEncoder is a ViT whose patches become tokens of the language model. Its layers are pre-norm,
// without a mask and without dropout.
struct VisionEncoder {
  std::int64_t layers = 0;  // 0: there is no encoder
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t feed_forward = 0;
  NormKind norm = NormKind::layer;
  Activation activation = Activation::gelu;
  bool biases = true;  // of all linears of a layer
  bool rotary = false;
  std::int64_t positions = 0;   // rows of a table of positions; 0: none
  std::int64_t image_size = 0;  // edge in pixels; 0: any
  std::int64_t patch = 0;       // the same of a patch
  std::int64_t frames = 1;      // of a video that one patch takes in; an image is repeated
  std::int64_t channels = 3;
  bool patch_bias = false;
  bool class_token = false;
  bool norm_before = false;  // a norm in front of the layers,
  bool norm_behind = false;  // and one behind them
  // Patches of a window, outside of which a query sees nothing; 0: the image (Qwen2.5-VL).
  std::int64_t window = 0;
  LayerSet full_attention;  // layers that see the image in spite of a window
  Projector projector;
  bool exists() const { return layers > 0; }
  std::int64_t head_dim() const { return hidden / heads; }
  std::int64_t merged() const { return projector.merge * projector.merge; }
  // Patches that become so many tokens, with the class token.
  std::int64_t patches_of(std::int64_t tokens) const {
    return tokens * merged() + (class_token ? 1 : 0);
  }
  // Tokens of an image of the size that the model takes; 0: it takes any.
  std::int64_t tokens_of_image() const {
    const std::int64_t edge = image_size / patch / projector.merge;
    return edge * edge;
  }
  bool operator==(const VisionEncoder&) const = default;
};

struct TransformerShape {
  std::string name;
  std::string family;
  std::string source;

  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // of latent attention: of queries and keys
  std::int64_t feed_forward = 0;
  std::int64_t vocabulary = 0;    // 0 with an image input
  std::int64_t max_sequence = 0;  // learned positions: rows of their table; else a limit or 0
  std::int64_t token_types = 0;   // BERT: rows of the segment table
  std::int64_t classes = 0;       // Head::classifier

  NormKind norm = NormKind::layer;
  NormPlacement norm_placement = NormPlacement::pre;
  Activation activation = Activation::gelu;
  Positions positions = Positions::learned;
  AttentionMask mask = AttentionMask::causal;
  Head head = Head::language_model;

  bool qkv_bias = false;
  bool projection_bias = false;
  bool mlp_bias = false;
  bool head_bias = false;
  bool qk_norm = false;         // Qwen3: norm over head_dim of every query and key
  bool qk_norm_whole = false;   // OLMo 2, with qk_norm: over all queries, and all keys, of a token
  bool qk_norm_scales = true;   // false: without weights, in layers with positions alone (Llama 4)
  bool embedding_norm = false;  // BERT
  bool tied_head = false;

  double rotary_share = 1;     // of a head's width that rotary positions turn
  LayerSet without_positions;  // layers whose queries and keys are not turned
  std::int64_t window = 0;     // keys that a query sees, its own included; 0: all before it
  LayerSet full_attention;     // layers that see all of them in spite of a window
  std::int64_t attention_chunk =
      0;                           // Llama 4: keys before a query's chunk are not seen; 0: all are
  bool attention_sinks = false;    // gpt-oss: a trained score per head beside those of the keys
  bool attention_softcap = false;  // Gemma 2: c tanh(score / c)
  bool logit_softcap = false;      // the same of the logits
  bool embedding_scale = false;    // the embedding is multiplied by a number,
  bool residual_scale = false;     // every branch before it is added,
  bool logit_scale = false;        // the logits
  bool attention_gate = false;     // Qwen3-Next: a gate, made with the queries, of what heads give
  std::int64_t window_of(std::int64_t layer) const {
    return full_attention.has(layer) ? 0 : window;
  }

  double projection_dropout = 0;  // after the attention projection
  double mlp_dropout = 0;         // after the MLP
  double attention_dropout = 0;   // on the attention probabilities
  double embedding_dropout = 0;

  // Depths of multi-token prediction (DeepSeek-AI 2024, arXiv:2412.19437, section 2.2): each is one
  // more layer behind the last one, on the sum of two norms' products, and one more loss.
  std::int64_t mtp_layers = 0;
  std::vector<LayerKind> mtp_kinds;  // the layers of a depth; empty: one like the last layer
  bool mtp_repeated = false;         // every depth runs the layers of the first, and its parameters
  bool mtp_sixteen_bits = false;     // its linears stay in 16 bits

  Experts experts;
  LatentAttention latent;
  SparseAttention sparse;
  Hybrid hybrid;
  LayerKind kind_of(std::int64_t layer) const {
    if (hybrid.exists()) return hybrid.layers[static_cast<std::size_t>(layer)];
    return {.feed_forward = experts.in_layer(layer) ? FeedForward::experts : FeedForward::mlp};
  }

  VisionEncoder vision;  // in front of a language model
  ImageInput image;      // size 0: none
  bool has_image() const { return image.size > 0; }
  bool operator==(const TransformerShape&) const = default;
};

}  // namespace sim
