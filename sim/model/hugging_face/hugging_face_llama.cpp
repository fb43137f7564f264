// The families of Hugging Face config.json that are made like Llama: norms without shifts, rotary
// positions, a gated MLP. This file has their differences, by transformers' classes
// (models/FAMILY/modular_*.py, modeling_*.py and configuration_*.py).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/model/hugging_face/hugging_face_fields.hpp"

namespace sim {
namespace {

using Family = HuggingFaceFamily;
using Fields = HuggingFaceFields;

enum class QueryNorm : std::uint8_t { none, heads, whole };
// Which of the attention's linears have a bias: none; all four, or queries, keys and values, where
// `key` says so; queries, keys and values always.
enum class Biased : std::uint8_t { none, all, qkv, qkv_always };

struct LlamaLike {
  Family family;
  NormPlacement placement = NormPlacement::pre;
  QueryNorm query_norm = QueryNorm::none;
  Biased biased = Biased::none;
  const char* bias_key = "attention_bias";
  bool bias = false;               // where the file does not say
  bool mlp_bias = false;           // whether mlp_bias is a field
  bool heads_default = false;      // key/value heads: as many as heads, where the file does not say
  bool own_width = false;          // heads have a width of their own: head_dim is required
  bool tied = false;               // where the file does not say
  double rotary_share = 1;         // likewise
  const char* norm_key = nullptr;  // the field that says whether there is a query_norm
};

constexpr auto pre = NormPlacement::pre;
constexpr std::array families{
    LlamaLike{Family::llama, pre, QueryNorm::none, Biased::all, "attention_bias", false, true,
              true},
    LlamaLike{Family::mistral},
    LlamaLike{.family = Family::ministral3, .own_width = true},
    LlamaLike{Family::mixtral},
    LlamaLike{Family::qwen2, pre, QueryNorm::none, Biased::qkv_always},
    LlamaLike{Family::qwen3, pre, QueryNorm::heads, Biased::all},
    LlamaLike{Family::qwen3_moe, pre, QueryNorm::heads, Biased::all},
    LlamaLike{Family::qwen2_moe, pre, QueryNorm::none, Biased::qkv_always},
    LlamaLike{.family = Family::qwen3_next,
              .query_norm = QueryNorm::heads,
              .biased = Biased::all,
              .own_width = true,
              .rotary_share = 0.25},
    LlamaLike{.family = Family::qwen3_5,
              .query_norm = QueryNorm::heads,
              .biased = Biased::all,
              .own_width = true,
              .rotary_share = 0.25},
    LlamaLike{.family = Family::qwen3_5_moe,
              .query_norm = QueryNorm::heads,
              .biased = Biased::all,
              .own_width = true,
              .rotary_share = 0.25},
    LlamaLike{Family::deepseek, pre, QueryNorm::none, Biased::all},
    LlamaLike{Family::deepseek_v32, pre, QueryNorm::none, Biased::all},
    LlamaLike{Family::glm4_moe_lite, pre, QueryNorm::none, Biased::all},
    LlamaLike{Family::glm_moe_dsa, pre, QueryNorm::none, Biased::all},
    LlamaLike{.family = Family::glm4_moe,
              .query_norm = QueryNorm::heads,
              .biased = Biased::qkv,
              .own_width = true,
              .rotary_share = 0.5,
              .norm_key = "use_qk_norm"},
    LlamaLike{.family = Family::minimax_m2,
              .query_norm = QueryNorm::whole,
              .own_width = true,
              .norm_key = "use_qk_norm"},
    LlamaLike{.family = Family::llama4,
              .query_norm = QueryNorm::heads,
              .biased = Biased::all,
              .own_width = true,
              .norm_key = "use_qk_norm"},
    LlamaLike{.family = Family::olmoe,
              .query_norm = QueryNorm::whole,
              .biased = Biased::all,
              .heads_default = true},
    LlamaLike{.family = Family::bailing_moe,
              .query_norm = QueryNorm::heads,
              .biased = Biased::qkv,
              .bias_key = "use_qkv_bias",
              .own_width = true,
              .norm_key = "use_qk_norm"},
    LlamaLike{.family = Family::nemotron,
              .biased = Biased::all,
              .mlp_bias = true,
              .heads_default = true,
              .rotary_share = 0.5},
    LlamaLike{.family = Family::phi3, .heads_default = true},
    LlamaLike{.family = Family::olmo2,
              .placement = NormPlacement::reordered,
              .query_norm = QueryNorm::whole,
              .biased = Biased::all,
              .heads_default = true},
    LlamaLike{.family = Family::olmo3,
              .placement = NormPlacement::reordered,
              .query_norm = QueryNorm::whole,
              .biased = Biased::all,
              .heads_default = true},
    LlamaLike{.family = Family::smollm3, .biased = Biased::all, .mlp_bias = true, .tied = true},
    LlamaLike{.family = Family::ernie4_5,
              .biased = Biased::all,
              .bias_key = "use_bias",
              .own_width = true,
              .tied = true},
    LlamaLike{
        .family = Family::granite, .biased = Biased::all, .mlp_bias = true, .heads_default = true},
    LlamaLike{.family = Family::glm, .biased = Biased::qkv, .own_width = true, .rotary_share = 0.5},
    LlamaLike{.family = Family::glm4,
              .placement = NormPlacement::sandwich,
              .biased = Biased::qkv,
              .bias = true,
              .own_width = true,
              .rotary_share = 0.5},
    LlamaLike{.family = Family::gemma, .biased = Biased::all, .own_width = true, .tied = true},
    LlamaLike{.family = Family::gemma2,
              .placement = NormPlacement::sandwich,
              .biased = Biased::all,
              .own_width = true,
              .tied = true},
    LlamaLike{.family = Family::gemma3,
              .placement = NormPlacement::sandwich,
              .query_norm = QueryNorm::heads,
              .biased = Biased::all,
              .own_width = true,
              .tied = true},
    LlamaLike{.family = Family::seed_oss,
              .biased = Biased::qkv,
              .bias = true,
              .mlp_bias = true,
              .own_width = true},
    LlamaLike{.family = Family::gpt_oss, .biased = Biased::all, .bias = true, .own_width = true},
};

const LlamaLike& traits_of(Family family) {
  for (const LlamaLike& entry : families)
    if (entry.family == family) return entry;
  return families.front();
}

// Latent attention with an indexer of sparse attention.
bool has_indexer(Family family) {
  return family == Family::deepseek_v32 || family == Family::glm_moe_dsa;
}

// Latent attention, and experts by the fields of DeepSeek.
bool is_deepseek(Family family) {
  return family == Family::deepseek || family == Family::glm4_moe_lite || has_indexer(family);
}

bool is_gemma(Family family) {
  return family == Family::gemma || family == Family::gemma2 || family == Family::gemma3;
}

// A field that the text part of public Gemma 3 files leaves out, since it has the value of the
// class (Gemma3TextConfig); of the others such a default is one model's size and no fact.
std::int64_t size_of(const Fields& fields, Family family, const char* key, std::int64_t gemma3,
                     std::int64_t most, std::vector<std::string>& notes) {
  if (family != Family::gemma3 || fields.in().has(key)) return fields.size({key}, most);
  notes.push_back(
      fmt::format("{}: {}, the default of Gemma3TextConfig; the file does not say", key, gemma3));
  return gemma3;
}

void read_grouped_heads(const Fields& fields, const LlamaLike& traits, TransformerShape& shape,
                        std::vector<std::string>& notes) {
  namespace limits = transformer_limits;
  // The classes of the others default to the number of their first model (2, 4, 8 or 32), which is
  // no fact about this file: required.
  shape.kv_heads =
      traits.heads_default
          ? fields.size_or({"num_key_value_heads"}, shape.heads, limits::heads)
          : size_of(fields, traits.family, "num_key_value_heads", 4, limits::heads, notes);
  if (shape.heads % shape.kv_heads != 0)
    fields.in().problem(
        "num_key_value_heads",
        fmt::format("{} key/value heads do not divide {} heads", shape.kv_heads, shape.heads));
  // null says hidden / heads.
  if (traits.own_width && !fields.is_null("head_dim"))
    shape.head_dim = size_of(fields, traits.family, "head_dim", 256, limits::head_dim, notes);
  else
    read_head_dim(fields, {"num_attention_heads"}, shape);
}

void read_biases(const Fields& fields, const LlamaLike& traits, TransformerShape& shape) {
  if (traits.biased != Biased::none && traits.biased != Biased::qkv_always)
    shape.qkv_bias = fields.flag(traits.bias_key, traits.bias);
  shape.projection_bias = traits.biased == Biased::all && shape.qkv_bias;
  if (traits.biased == Biased::qkv_always) shape.qkv_bias = true;
  if (traits.family == Family::ernie4_5 || traits.family == Family::gpt_oss)
    shape.mlp_bias = traits.family == Family::gpt_oss || shape.qkv_bias;
  if (traits.mlp_bias) shape.mlp_bias = fields.flag("mlp_bias", false);
  if (traits.family == Family::seed_oss)
    shape.projection_bias = fields.flag("attention_out_bias", false);
}

// A number that transformers 5 has among the parameters of the rotary embedding.
double rotary_share_of(const Fields& fields, double fallback) {
  constexpr RealRange range{.min = 0.01, .max = 1};
  const ObjectReader& in = fields.in();
  if (in.has("partial_rotary_factor")) return in.real("partial_rotary_factor", range);
  if (!in.has("rope_parameters")) return fallback;
  const ObjectReader rope = in.object("rope_parameters");
  rope.ignore_unknown();
  return rope.real_or("partial_rotary_factor", fallback, range);
}

// 1: the layer turns its queries and keys; 0: it does not.
LayerSet layers_without_positions(const Fields& fields, std::int64_t layers) {
  LayerSet set;
  const ObjectReader& in = fields.in();
  const auto list = in.find("no_rope_layers");
  const std::vector<ValueReader> turns = list ? list->list() : std::vector<ValueReader>{};
  if (!turns.empty()) {
    if (static_cast<std::int64_t>(turns.size()) < layers)
      list->problem(fmt::format("has {} layers, num_hidden_layers is {}", turns.size(), layers));
    for (std::size_t layer = 0; layer < turns.size(); ++layer)
      if (turns[layer].integer({.min = 0, .max = 1}) == 0 &&
          static_cast<std::int64_t>(layer) < layers)
        set.layers.push_back(static_cast<std::int64_t>(layer));
    return set;
  }
  const std::int64_t every =
      fields.size_or({"no_rope_layer_interval"}, 4, transformer_limits::layers);
  for (std::int64_t layer = every - 1; layer < layers; layer += std::max<std::int64_t>(1, every))
    set.layers.push_back(layer);
  return set;
}

// Gemma multiplies the embedding by sqrt(hidden); scores are scaled by query_pre_attn_scalar in the
// place of head_dim, which costs nothing.
void read_gemma(const Fields& fields, Family family, TransformerShape& shape) {
  const ObjectReader& in = fields.in();
  shape.activation = gated_activation(
      in, in.has("hidden_activation") ? "hidden_activation" : "hidden_act", "gelu_pytorch_tanh");
  shape.embedding_scale = true;
  if (family == Family::gemma) return;
  const bool by_default = family == Family::gemma2;
  const auto capped = [&](const char* key) {
    if (in.has(key)) return in.real(key, {.min = 1e-3, .max = 1e6}) > 0;
    return by_default && !fields.is_null(key);
  };
  shape.attention_softcap = capped("attn_logit_softcapping");
  shape.logit_softcap = capped("final_logit_softcapping");
  if (fields.flag("use_bidirectional_attention", false))
    in.problem("use_bidirectional_attention", "attention in both directions is not supported");
}

// Width of the part of a head that turns; linear attention was M1's.
void read_minimax(const Fields& fields, TransformerShape& shape) {
  const ObjectReader& in = fields.in();
  const std::int64_t turning =
      fields.size_or({"rotary_dim"}, shape.head_dim, transformer_limits::head_dim);
  if (turning > shape.head_dim)
    in.problem("rotary_dim",
               fmt::format("is {}; allowed: up to head_dim, {}", turning, shape.head_dim));
  shape.rotary_share =
      std::min(1.0, static_cast<double>(turning) / static_cast<double>(shape.head_dim));
  if (const auto kinds = in.find("attn_type_list"))
    for (const ValueReader& kind : kinds->list())
      if (kind.integer({.min = 0, .max = 1}) == 0)
        return kind.problem("0 is a layer of linear attention, which is not supported; allowed: 1");
  if (in.integer_or("shared_intermediate_size", 0, {.min = 0, .max = INT32_MAX}) > 0)
    in.problem("shared_intermediate_size", "a shared expert of MiniMax is not supported");
}

// Depths of multi-token prediction, by the names that families have for them.
void note_prediction(const ObjectReader& in, std::vector<std::string>& notes) {
  for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}) {
    const std::int64_t depths =
        in.integer_or(key, 0, {.min = 0, .max = transformer_limits::layers});
    if (depths > 0)
      notes.push_back(
          fmt::format("{}: {} layers of multi-token prediction are left out", key, depths));
  }
}

// Reads the keys that only one family has.
void read_own(const Fields& fields, Family family, TransformerShape& shape) {
  if (is_gemma(family)) read_gemma(fields, family, shape);
  if (family == Family::phi3)
    shape.projection_dropout = shape.mlp_dropout = fields.dropout({"resid_pdrop"}, 0);
  // Norms of queries and keys have no weights; scores are of a chunk where there are positions.
  if (family == Family::llama4) {
    shape.qk_norm_scales = !shape.qk_norm;
    if (!fields.is_null("attention_chunk_size"))
      shape.attention_chunk =
          fields.size_or({"attention_chunk_size"}, 8192, transformer_limits::rows);
  }
  if (family == Family::smollm3 || family == Family::llama4)
    shape.without_positions = layers_without_positions(fields, shape.layers);
  const bool turns_part = family == Family::phi3 || family == Family::bailing_moe;
  if (turns_part || traits_of(family).rotary_share < 1)
    shape.rotary_share = rotary_share_of(fields, traits_of(family).rotary_share);
  if (family == Family::minimax_m2) read_minimax(fields, shape);
  if (family == Family::bailing_moe && fields.flag("use_bias", false))
    fields.in().problem("use_bias", "biases of an MLP beside experts are not supported");
  // LayerNorm1P has a shift; its MLP has no gate.
  if (family == Family::nemotron) shape.norm = NormKind::layer;
  // embedding_multiplier, residual_multiplier, logits_scaling: also by 1. attention_multiplier is
  // the scale of the scores.
  if (family == Family::granite)
    shape.embedding_scale = shape.residual_scale = shape.logit_scale = true;
  if (family == Family::gpt_oss) shape.attention_sinks = true;
}

void read_experts(const Fields& fields, Family family, TransformerShape& shape) {
  if (family == Family::mixtral) read_mixtral_experts(fields, shape);
  if (family == Family::qwen3_moe) read_qwen3_experts(fields, shape);
  if (family == Family::minimax_m2 || family == Family::olmoe) read_mixtral_experts(fields, shape);
  if (is_deepseek(family) || family == Family::glm4_moe || family == Family::bailing_moe)
    read_deepseek_experts(fields, shape);
  if (family == Family::qwen2_moe || family == Family::qwen3_next ||
      family == Family::qwen3_5_moe) {
    shape.experts.shared_feed_forward =
        fields.size({"shared_expert_intermediate_size"}, transformer_limits::feed_forward);
    shape.experts.shared_gate = true;
  }
  if (family == Family::qwen2_moe) read_qwen3_experts(fields, shape);
  if (family == Family::qwen3_next || family == Family::qwen3_5_moe)
    read_qwen3_next(fields, read_qwen_experts(fields, shape), shape);
  if (family == Family::qwen3_5)
    read_qwen3_next(fields, std::vector<bool>(static_cast<std::size_t>(shape.layers)), shape);
  if (family == Family::gpt_oss) read_gpt_oss_experts(fields, shape);
  if (family == Family::llama4) read_llama4_experts(fields, shape);
}

}  // namespace

Activation gated_activation(const ObjectReader& in, const char* key, const char* fallback) {
  const std::string name = in.text_or(key, fallback);
  if (name == "silu" || name == "swish") return Activation::swiglu;
  if (name.starts_with("gelu")) return Activation::geglu;
  in.problem(key, fmt::format("unknown activation \"{}\" of a gated MLP; known: silu, gelu", name));
  return Activation::swiglu;
}

void read_head_dim(const Fields& fields, Fields::Names heads_key, TransformerShape& shape) {
  if (fields.in().has("head_dim")) {
    shape.head_dim = fields.size({"head_dim"}, transformer_limits::head_dim);
    return;
  }
  shape.head_dim = shape.hidden / shape.heads;
  if (shape.hidden % shape.heads != 0 || shape.head_dim > transformer_limits::head_dim)
    fields.in().problem(*heads_key.begin(),
                        fmt::format("{} heads do not make heads of equal width, at most {}, of "
                                    "hidden size {}, and no head_dim is given",
                                    shape.heads, transformer_limits::head_dim, shape.hidden));
}

void read_llama_like(const Fields& fields, Family family, TransformerShape& shape,
                     std::vector<std::string>& notes) {
  namespace limits = transformer_limits;
  const LlamaLike& traits = traits_of(family);
  shape.layers = fields.size({"num_hidden_layers"}, limits::layers);
  shape.hidden = fields.size({"hidden_size"}, limits::hidden);
  shape.heads = size_of(fields, family, "num_attention_heads", 8, limits::heads, notes);
  read_biases(fields, traits, shape);
  if (is_deepseek(family))
    read_deepseek_attention(fields, shape);
  else
    read_grouped_heads(fields, traits, shape, notes);
  if (has_indexer(family)) read_deepseek_indexer(fields, shape);
  // Where all layers have experts, the width of a dense one may be left out.
  const bool optional = family == Family::qwen3_5_moe || family == Family::qwen3_next;
  if ((!optional || fields.in().has("intermediate_size")) && family != Family::llama4)
    shape.feed_forward = fields.size({"intermediate_size"}, limits::feed_forward);
  read_experts(fields, family, shape);
  shape.vocabulary = size_of(fields, family, "vocab_size", 262'208, limits::rows, notes);
  shape.norm = NormKind::rms;
  shape.norm_placement = traits.placement;
  shape.positions = Positions::rotary;
  if (family == Family::nemotron)
    shape.activation = plain_activation(fields.in(), "hidden_act", "relu2");
  else if (!is_gemma(family))
    shape.activation = gated_activation(fields.in(), "hidden_act", "silu");
  shape.tied_head = fields.flag("tie_word_embeddings", traits.tied);
  shape.attention_dropout = fields.dropout({"attention_dropout"}, 0);
  shape.qk_norm = traits.query_norm != QueryNorm::none;
  if (shape.qk_norm && traits.norm_key != nullptr)
    shape.qk_norm = fields.flag(traits.norm_key, traits.family != Family::glm4_moe);
  shape.qk_norm_whole = shape.qk_norm && traits.query_norm == QueryNorm::whole;
  note_prediction(fields.in(), notes);
  read_own(fields, family, shape);
  read_window(fields, family, shape);
}

}  // namespace sim
