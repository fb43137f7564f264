// The model of a row, from its sizes and the family that its name tells.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/model/transformer.hpp"
#include "sim/rows/run_scenario.hpp"
#include "sim/rows/run_words.hpp"

namespace sim {
namespace {

enum class Biases : std::uint8_t { none, qkv, all };

// Family fills in what a table leaves open of a model. Sources: models/README.md and the files
// there.
struct Family {
  std::string_view in_name;  // lower case
  NormKind norm;
  Activation activation;
  Positions positions;
  Biases biases;
  bool tied_head;
  double dropout;
  bool qk_norm = false;
};

constexpr Family like_gpt(std::string_view in_name, double dropout) {
  return {in_name, NormKind::layer, Activation::gelu, Positions::learned, Biases::all,
          true,    dropout};
}
constexpr Family like_llama(std::string_view in_name, Biases biases = Biases::none,
                            bool qk_norm = false) {
  return {in_name, NormKind::rms, Activation::swiglu, Positions::rotary, biases, false, 0, qk_norm};
}
constexpr Family gpt = like_gpt("gpt", 0.1);
constexpr Family llama = like_llama("llama");
constexpr std::array model_families{
    llama,
    like_llama("mistral"),
    like_llama("mixtral"),
    like_llama("deepseek"),
    like_llama("qwen3", Biases::none, true),
    like_llama("qwen", Biases::qkv),
    Family{"nemotron", NormKind::layer, Activation::squared_relu, Positions::rotary, Biases::none,
           false, 0},
    like_gpt("mpt", 0),
    gpt,
    like_gpt("megatron", 0.1),
    like_gpt("turing", 0.1),
};

// Names of families whose layers have more than the columns can say: norms behind branches,
// windows, soft caps, sinks.
void refuse_others(const std::string& model) {
  for (const char* name :
       {"gemma", "olmo-2", "olmo2", "olmo-3", "olmo3", "granite", "glm-4", "glm4", "gpt-oss"})
    if (contains(model, name))
      throw NotSimulated(fmt::format(
          "{} in the name of the model: columns of tables do not say what its layers have; write "
          "the run as a scenario (models/README.md)",
          name));
}

// A name that tells no family: a plain MLP is 4 wide by convention, a gated one is not.
const Family& family_of(const std::string& model, std::int64_t hidden, std::int64_t feed_forward) {
  for (const Family& family : model_families)
    if (contains(model, family.in_name)) return family;
  return feed_forward == 4 * hidden ? gpt : llama;
}

void check_sizes(const TransformerShape& shape) {
  namespace limits = transformer_limits;
  const auto check = [](std::string_view column, std::int64_t value, std::int64_t most) {
    if (value > most)
      throw NotSimulated(fmt::format("{} is {}; allowed: up to {}", column, value, most));
  };
  check("layers", shape.layers, limits::layers);
  check("hidden", shape.hidden, limits::hidden);
  check("heads", shape.heads, limits::heads);
  check("ffn", shape.feed_forward, limits::feed_forward);
  check("vocab", shape.vocabulary, limits::rows);
  check("seq_len", shape.max_sequence, limits::rows);
  check("head_dim", shape.head_dim, limits::head_dim);
  if (shape.heads % shape.kv_heads != 0)
    throw NotSimulated(
        fmt::format("kv_heads is {}, which does not divide {} heads", shape.kv_heads, shape.heads));
}

std::int64_t head_dim_of(const RunCells& cells, const TransformerShape& shape) {
  if (!cells["head_dim"].empty()) return needed(cells, "head_dim");
  if (shape.hidden % shape.heads != 0)
    throw NotSimulated(
        fmt::format("heads is {}, which does not divide hidden {}, and head_dim is empty",
                    shape.heads, shape.hidden));
  return shape.hidden / shape.heads;
}

double dropout_of(const RunCells& cells, const Family& family) {
  const double dropout = cells.real("dropout").value_or(family.dropout);
  if (dropout < 1) return dropout;
  throw NotSimulated(fmt::format("dropout is {:g}; allowed: 0 to less than 1", dropout));
}

// Mixture fills in what a table leaves open of the mixtures that have two kinds of MLP: DeepSeek-AI
// 2024 (arXiv:2405.04434, section 3.1.2; arXiv:2412.19437, section 4.2).
struct Mixture {
  std::string_view in_name;
  std::int64_t feed_forward, shared_feed_forward, dense_layers;
  std::int64_t groups = 0, groups_per_token = 0;
};
constexpr std::array mixtures{Mixture{"deepseek-v2", 1536, 3072, 1, 8, 3},
                              Mixture{"deepseek-v3", 2048, 2048, 3, 8, 4}};

Mixture mixture_of(const TransformerShape& shape) {
  for (const Mixture& mixture : mixtures)
    if (contains(lower_case(shape.name), mixture.in_name)) return mixture;
  return {"", shape.feed_forward, 0, 0, 0, 0};
}

void set_experts(const RunCells& cells, TransformerShape& shape) {
  Experts& experts = shape.experts;
  experts.count = cells.whole("moe_experts").value_or(0);
  if (experts.count <= 1) {
    experts.count = 0;
    return;
  }
  namespace limits = transformer_limits;
  const Mixture named = mixture_of(shape);
  experts.per_token = needed(cells, "moe_topk");
  experts.feed_forward = needed(cells, "moe_ffn", named.feed_forward);
  experts.shared_feed_forward = cells.whole("moe_shared_ffn").value_or(named.shared_feed_forward);
  experts.first_layer = cells.whole("moe_dense_layers").value_or(named.dense_layers);
  experts.groups = named.groups;
  experts.groups_per_token = named.groups_per_token;
  if (experts.count > limits::experts || experts.per_token > experts.count ||
      experts.feed_forward > limits::feed_forward ||
      experts.shared_feed_forward > limits::feed_forward || experts.shared_feed_forward < 0)
    throw NotSimulated(fmt::format(
        "moe_topk is {} of moe_experts {}, moe_ffn {}, moe_shared_ffn {}; allowed: up to {} "
        "experts, moe_topk up to moe_experts, widths up to {}",
        experts.per_token, experts.count, experts.feed_forward, experts.shared_feed_forward,
        limits::experts, limits::feed_forward));
  if (const std::string problem = experts_problem(shape); !problem.empty())
    throw NotSimulated(problem);
  if (experts.first_layer < 0 || experts.first_layer >= shape.layers)
    throw NotSimulated(fmt::format("moe_dense_layers is {}; allowed: 0 to {}", experts.first_layer,
                                   shape.layers - 1));
}

// All models of that name have the same latent attention (the papers above).
void set_latent_attention(TransformerShape& shape) {
  shape.latent = {.query_rank = 1536,
                  .key_value_rank = 512,
                  .plain_dim = 128,
                  .rotary_dim = 64,
                  .value_dim = 128};
  shape.head_dim = shape.latent.plain_dim + shape.latent.rotary_dim;
  shape.kv_heads = shape.heads;
}

}  // namespace

Model run_model(const RunCells& cells) {
  TransformerShape shape;
  shape.name = std::string{cells["model"]};
  if (shape.name.empty()) throw NotSimulated("model is empty");
  refuse_others(lower_case(shape.name));
  shape.layers = needed(cells, "layers");
  shape.hidden = needed(cells, "hidden");
  shape.heads = needed(cells, "heads");
  shape.kv_heads = needed(cells, "kv_heads", shape.heads);
  shape.feed_forward = needed(cells, "ffn");
  // Rows that were computed and not run may lack the vocabulary: the memory of an embedding of
  // 51,200 tokens is then within the error of the row.
  const bool analytic = cells["status"].starts_with("analytic");
  shape.vocabulary = analytic ? needed(cells, "vocab", 51'200) : needed(cells, "vocab");
  shape.max_sequence = needed(cells, "seq_len");
  const Family& family = family_of(lower_case(shape.name), shape.hidden, shape.feed_forward);
  shape.family = std::string{family.in_name};
  shape.source = cells.file;
  shape.norm = family.norm;
  shape.activation = family.activation;
  shape.positions = family.positions;
  shape.qkv_bias = family.biases != Biases::none;
  shape.projection_bias = shape.mlp_bias = family.biases == Biases::all;
  shape.qk_norm = family.qk_norm;
  shape.tied_head = truth(cells, "tied_embeddings").value_or(family.tied_head);
  shape.projection_dropout = shape.mlp_dropout = shape.attention_dropout = shape.embedding_dropout =
      dropout_of(cells, family);
  shape.head_dim = head_dim_of(cells, shape);
  check_sizes(shape);
  set_experts(cells, shape);
  if (contains(lower_case(shape.name), "deepseek-v")) set_latent_attention(shape);
  return build_transformer(shape);
}

}  // namespace sim
