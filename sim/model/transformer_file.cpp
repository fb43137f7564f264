// The description of a transformer in YAML, our own format (models/FORMAT.md documents every key).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/config/reader.hpp"
#include "sim/model/hybrid_file.hpp"
#include "sim/model/layer_sets.hpp"
#include "sim/model/sources.hpp"
#include "sim/model/transformer.hpp"
#include "sim/model/vision_file.hpp"

namespace sim {

namespace {

// Biases are the linear layers that add a bias.
enum class Biases : std::uint8_t { none, qkv, attention, all };
constexpr auto words_of(Biases) {
  return std::array{Word{Biases::none, "none"}, Word{Biases::qkv, "qkv"},
                    Word{Biases::attention, "attention"}, Word{Biases::all, "all"}};
}

// QkNormOver is the width of a norm of queries and of keys: each head, or the whole projection.
enum class QkNormOver : std::uint8_t { heads, projection };
constexpr auto words_of(QkNormOver) {
  return std::array{Word{QkNormOver::heads, "heads"}, Word{QkNormOver::projection, "projection"}};
}

bool needs_vocabulary(Head head) {
  return head == Head::language_model || head == Head::masked_lm || head == Head::pretraining;
}

void read_experts(const ObjectReader& in, TransformerShape& shape) {
  namespace limits = transformer_limits;
  if (!in.has("experts")) return;
  const ObjectReader from = in.object("experts");
  Experts& experts = shape.experts;
  experts.count = from.integer("count", {.min = 2, .max = limits::experts});
  experts.per_token = from.integer("per_token", {.min = 1, .max = limits::experts});
  experts.feed_forward = from.integer("feed_forward", {.min = 1, .max = limits::feed_forward});
  experts.shared_feed_forward =
      from.integer_or("shared_feed_forward", 0, {.min = 0, .max = limits::feed_forward});
  experts.first_layer = from.integer_or("first_layer", 0, {.min = 0, .max = limits::layers});
  experts.every = from.integer_or("every", 1, {.min = 1, .max = limits::layers});
  experts.router_bias = from.boolean_or("router_bias", false);
  experts.shared_gate = from.boolean_or("shared_gate", false);
  if (experts.shared_gate && experts.shared_feed_forward == 0)
    from.problem("shared_gate", "\"shared_gate\" goes with \"shared_feed_forward\"");
  experts.latent = from.integer_or("latent", 0, {.min = 0, .max = limits::hidden});
  experts.groups = from.integer_or("groups", 0, {.min = 0, .max = limits::experts});
  experts.groups_per_token =
      from.integer_or("groups_per_token", 0, {.min = 0, .max = limits::experts});
  if (const std::string problem = expert_groups_problem(experts); !problem.empty())
    from.problem(from.has("groups") ? "groups" : "groups_per_token", problem);
  if (experts.first_layer >= shape.layers)
    from.problem("first_layer", fmt::format("first_layer is {}; the last of {} layers is {}",
                                            experts.first_layer, shape.layers, shape.layers - 1));
  if (const std::string problem = experts_problem(shape); !problem.empty())
    from.problem("per_token", problem);
}

void read_latent_attention(const ObjectReader& in, TransformerShape& shape) {
  namespace limits = transformer_limits;
  const ObjectReader from = in.object("latent_attention");
  LatentAttention& latent = shape.latent;
  latent.query_rank = from.integer_or("query_rank", 0, {.min = 0, .max = limits::rank});
  latent.key_value_rank = from.integer("key_value_rank", {.min = 1, .max = limits::rank});
  latent.plain_dim = from.integer("plain_dim", {.min = 1, .max = limits::head_dim});
  latent.rotary_dim = from.integer("rotary_dim", {.min = 1, .max = limits::head_dim});
  latent.value_dim = from.integer("value_dim", {.min = 1, .max = limits::head_dim});
  shape.head_dim = latent.plain_dim + latent.rotary_dim;
  shape.kv_heads = shape.heads;
  for (const char* key : {"head_dim", "kv_heads"})
    if (in.has(key))
      in.problem(key, fmt::format("\"{}\" does not go with \"latent_attention\", from which it "
                                  "follows",
                                  key));
}

// A model without attention has heads as a size of its scans.
void read_heads_of_scans(const ObjectReader& in, TransformerShape& shape) {
  namespace limits = transformer_limits;
  const Hybrid& hybrid = shape.hybrid;
  const std::int64_t heads = hybrid.mamba.exists()       ? hybrid.mamba.heads
                             : hybrid.delta_net.exists() ? hybrid.delta_net.value_heads
                                                         : 1;
  const std::int64_t width =
      hybrid.mamba.exists() ? hybrid.mamba.head_dim : hybrid.delta_net.value_dim;
  shape.heads = in.integer_or("heads", heads, {.min = 1, .max = limits::heads});
  shape.kv_heads = in.integer_or("kv_heads", shape.heads, {.min = 1, .max = limits::heads});
  shape.head_dim = in.integer_or("head_dim", width, {.min = 1, .max = limits::head_dim});
  if (shape.kv_heads > 0 && shape.heads % shape.kv_heads != 0)
    in.problem("kv_heads", fmt::format("kv_heads is {}, which does not divide {} heads",
                                       shape.kv_heads, shape.heads));
}

void read_head_sizes(const ObjectReader& in, TransformerShape& shape) {
  namespace limits = transformer_limits;
  if (shape.hybrid.exists() && !shape.hybrid.has(Mixer::attention))
    return read_heads_of_scans(in, shape);
  shape.heads = in.integer("heads", {.min = 1, .max = limits::heads});
  if (in.has("latent_attention")) return read_latent_attention(in, shape);
  shape.kv_heads = in.integer_or("kv_heads", shape.heads, {.min = 1, .max = limits::heads});
  if (shape.heads % shape.kv_heads != 0)
    in.problem("kv_heads", fmt::format("kv_heads is {}, which does not divide {} heads",
                                       shape.kv_heads, shape.heads));
  if (in.has("head_dim")) {
    shape.head_dim = in.integer("head_dim", {.min = 1, .max = limits::head_dim});
    return;
  }
  shape.head_dim = shape.hidden / shape.heads;
  if (shape.hidden % shape.heads != 0)
    in.problem("heads", fmt::format("heads is {}, which does not divide hidden {}; give head_dim "
                                    "if that is meant",
                                    shape.heads, shape.hidden));
  else if (shape.head_dim > limits::head_dim)
    in.problem("heads", fmt::format("hidden / heads is {}; the largest head_dim is {}",
                                    shape.head_dim, limits::head_dim));
}

void read_sizes(const ObjectReader& in, TransformerShape& shape) {
  namespace limits = transformer_limits;
  shape.layers = in.integer("layers", {.min = 1, .max = limits::layers});
  shape.hidden = in.integer("hidden", {.min = 1, .max = limits::hidden});
  read_hybrid(in, shape);
  read_head_sizes(in, shape);
  const IntegerRange width{.min = 1, .max = limits::feed_forward};
  const auto needs_width = [](const LayerKind& kind) {
    return kind.feed_forward == FeedForward::mlp && kind.width == 0;
  };
  const auto& kinds = shape.hybrid.layers;
  const bool needed = kinds.empty() || std::any_of(kinds.begin(), kinds.end(), needs_width);
  shape.feed_forward =
      needed ? in.integer("feed_forward", width) : in.integer_or("feed_forward", 0, width);
  read_experts(in, shape);
}

// Latent attention has norms and positions of its own.
void check_latent_attention(const ObjectReader& in, const TransformerShape& shape) {
  if (!shape.latent.exists()) return;
  if (shape.positions != Positions::rotary)
    in.problem("positions", fmt::format("positions is {}; allowed with latent_attention: rotary",
                                        word(shape.positions)));
  if (shape.qk_norm)
    in.problem("qk_norm", "qk_norm does not go with latent_attention, which has norms of its own");
  for (const char* key : {"rotary_share", "without_positions", "window", "attention_chunk",
                          "attention_sinks", "attention_gate"})
    if (in.has(key)) in.problem(key, fmt::format("\"{}\" does not go with latent_attention", key));
}

void read_sparse_attention(const ObjectReader& in, TransformerShape& shape) {
  if (!in.has("sparse_attention")) return;
  namespace limits = transformer_limits;
  const ObjectReader from = in.object("sparse_attention");
  shape.sparse.index_heads = from.integer("index_heads", {.min = 1, .max = limits::heads});
  shape.sparse.index_dim = from.integer_or("index_dim", 128, {.min = 1, .max = limits::head_dim});
  shape.sparse.top_keys = from.integer_or("top_keys", 2048, {.min = 1, .max = limits::rows});
  shape.sparse.indexers = read_layer_set(from, "indexers", shape.layers);
  if (const std::string problem = indexers_problem(shape); !problem.empty())
    from.problem("indexers", problem);
  if (shape.latent.query_rank == 0)
    in.problem("sparse_attention",
               "\"sparse_attention\" goes with latent_attention that has a query_rank");
  if (shape.mask != AttentionMask::causal)
    in.problem("sparse_attention", "\"sparse_attention\" goes with attention causal only");
}

// Which tokens a query sees and how, layer by layer.
void read_attention(const ObjectReader& in, TransformerShape& shape) {
  shape.mask = in.word_or("attention", AttentionMask::causal);
  shape.window = in.integer_or("window", 0, {.min = 1, .max = transformer_limits::rows});
  shape.full_attention = read_layer_set(in, "full_attention", shape.layers);
  shape.attention_chunk =
      in.integer_or("attention_chunk", 0, {.min = 1, .max = transformer_limits::rows});
  shape.attention_sinks = in.boolean_or("attention_sinks", false);
  shape.attention_softcap = in.boolean_or("attention_softcap", false);
  shape.attention_gate = in.boolean_or("attention_gate", false);
  if (shape.window > 0 && shape.mask != AttentionMask::causal)
    in.problem("window", "a window goes with attention causal only");
  if (shape.window == 0 && !shape.full_attention.empty())
    in.problem("full_attention", "\"full_attention\" goes with \"window\", which is absent");
}

// Norms and positions of queries and keys.
void read_queries(const ObjectReader& in, TransformerShape& shape) {
  shape.positions = in.word<Positions>("positions");
  shape.qk_norm = in.boolean_or("qk_norm", false);
  shape.qk_norm_whole = in.word_or("qk_norm_over", QkNormOver::heads) == QkNormOver::projection;
  if (shape.qk_norm_whole && !shape.qk_norm)
    in.problem("qk_norm_over", "\"qk_norm_over\" goes with \"qk_norm: true\"");
  shape.qk_norm_scales = in.boolean_or("qk_norm_scales", true);
  shape.rotary_share = in.real_or("rotary_share", 1, {.min = 0.01, .max = 1});
  shape.without_positions = read_layer_set(in, "without_positions", shape.layers);
  if (shape.positions == Positions::rotary) return;
  for (const char* key : {"rotary_share", "without_positions"})
    if (in.has(key))
      in.problem(key, fmt::format("\"{}\" goes with \"positions: rotary\" only", key));
}

// Numbers by which tensors are multiplied, in passes of their own.
void read_scales(const ObjectReader& in, TransformerShape& shape) {
  shape.embedding_scale = in.boolean_or("embedding_scale", false);
  shape.residual_scale = in.boolean_or("residual_scale", false);
  shape.logit_scale = in.boolean_or("logit_scale", false);
  shape.logit_softcap = in.boolean_or("logit_softcap", false);
  if (in.has("image") && shape.embedding_scale)
    in.problem("embedding_scale", "\"embedding_scale\" does not go with \"image\"");
}

void read_architecture(const ObjectReader& in, TransformerShape& shape) {
  shape.family = in.text_or("family", "transformer");
  shape.norm = in.word<NormKind>("norm");
  shape.norm_placement = in.word_or("norm_placement", NormPlacement::pre);
  shape.activation = in.word<Activation>("activation");
  read_queries(in, shape);
  read_attention(in, shape);
  read_scales(in, shape);
  const Biases biases = in.word<Biases>("biases");
  shape.qkv_bias = biases != Biases::none;
  shape.projection_bias = biases == Biases::attention || biases == Biases::all;
  shape.mlp_bias = biases == Biases::all;
  shape.embedding_norm = in.boolean_or("embedding_norm", false);
  const RealRange probability{.min = 0, .max = 1};
  shape.mlp_dropout = in.real_or("hidden_dropout", 0, probability);
  shape.projection_dropout = in.real_or("projection_dropout", shape.mlp_dropout, probability);
  shape.attention_dropout = in.real_or("attention_dropout", 0, probability);
  shape.embedding_dropout = in.real_or("embedding_dropout", 0, probability);
}

void read_image(const ObjectReader& in, TransformerShape& shape) {
  const ObjectReader image = in.object("image");
  shape.image.size = image.integer("size", {.min = 1, .max = transformer_limits::pixels});
  shape.image.patch = image.integer("patch", {.min = 1, .max = transformer_limits::pixels});
  shape.image.channels = image.integer_or("channels", 3, {.min = 1, .max = 1024});
  if (shape.image.size % shape.image.patch != 0)
    image.problem("patch", fmt::format("patch is {}, which does not divide the image's size {}",
                                       shape.image.patch, shape.image.size));
  for (const char* key : {"vocabulary", "max_sequence", "token_types"})
    if (in.has(key))
      in.problem(key, fmt::format("\"{}\" does not go with \"image\": the sequence is the patches "
                                  "of the image and a class token",
                                  key));
}

void read_text_input(const ObjectReader& in, TransformerShape& shape) {
  const IntegerRange rows{.min = 1, .max = transformer_limits::rows};
  shape.vocabulary = in.integer("vocabulary", rows);
  shape.token_types = in.integer_or("token_types", 0, rows);
  if (shape.positions == Positions::learned) {
    shape.max_sequence = in.integer("max_sequence", rows);
  } else {
    shape.max_sequence = in.integer_or("max_sequence", 0, rows);
  }
}

void read_mtp_layers(const ObjectReader& in, TransformerShape& shape) {
  shape.mtp_layers = in.integer_or("mtp_layers", 0, {.min = 0, .max = 16});
  shape.mtp_repeated = in.boolean_or("mtp_repeated", false);
  shape.mtp_sixteen_bits = in.boolean_or("mtp_sixteen_bits", false);
  if (shape.mtp_layers == 0) return;
  if (shape.head != Head::language_model || shape.has_image())
    in.problem("mtp_layers", "\"mtp_layers\" goes with \"head: language_model\" over text only");
  if (!norms_input(shape.norm_placement))
    in.problem("mtp_layers", fmt::format("\"mtp_layers\" goes with norm_placement pre or "
                                         "sandwich; it is {}",
                                         word(shape.norm_placement)));
}

void read_head(const ObjectReader& in, TransformerShape& shape) {
  shape.head = in.word_or("head", Head::language_model);
  shape.tied_head = in.boolean_or("tied_head", false);
  shape.head_bias = shape.head == Head::masked_lm || shape.head == Head::pretraining;
  if (shape.head == Head::classifier)
    shape.classes = in.integer("classes", {.min = 1, .max = transformer_limits::rows});
  else if (in.has("classes"))
    in.problem("classes", "\"classes\" goes with \"head: classifier\" only");
  if (shape.has_image() && needs_vocabulary(shape.head))
    in.problem("head", fmt::format("head {} needs a vocabulary, which an image has not; allowed: "
                                   "classifier, none",
                                   word(shape.head)));
  if (shape.tied_head && (shape.has_image() || !needs_vocabulary(shape.head)))
    in.problem("tied_head", "there is no head over the vocabulary that could be tied");
  read_mtp_layers(in, shape);
  if (shape.head == Head::language_model) return;
  for (const char* key : {"logit_scale", "logit_softcap"})
    if (in.has(key))
      in.problem(key, fmt::format("\"{}\" goes with \"head: language_model\" only", key));
}

}  // namespace

std::string name_from_path(const std::string& path) {
  const std::filesystem::path file{path};
  if (file.filename() != "config.json") return file.stem().string();
  const std::filesystem::path folder = file.parent_path().filename();
  return folder.empty() ? "config" : folder.string();
}

TransformerShape read_transformer_shape(const ObjectReader& root, std::string_view default_name) {
  TransformerShape shape;
  shape.name = root.text_or("name", default_name);
  shape.source = root.text("source");
  const ObjectReader in = root.object("transformer");
  read_sizes(in, shape);
  read_architecture(in, shape);
  check_latent_attention(in, shape);
  read_sparse_attention(in, shape);
  if (in.has("image"))
    read_image(in, shape);
  else
    read_text_input(in, shape);
  read_head(in, shape);
  check_hybrid(in, shape);
  read_vision(in, shape);
  return shape;
}

Model read_transformer(const Document& document) {
  const TransformerShape shape =
      read_transformer_shape(document.root_object(), name_from_path(document.name()));
  document.finish();
  return build_transformer(shape);
}

}  // namespace sim
