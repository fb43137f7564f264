// Mixtures of experts and latent attention in Hugging Face config.json: the fields of transformers'
// classes, and of the code that came with DeepSeek-V2 and V3. The classes' defaults are the sizes
// of one model each, which is no fact about this file: sizes are required.
#include <algorithm>
#include <utility>

#include "sim/model/hugging_face/hugging_face_fields.hpp"

namespace sim {

namespace {

void read_routed_experts(const HuggingFaceFields& fields, HuggingFaceFields::Names count,
                         TransformerShape& shape) {
  Experts& experts = shape.experts;
  experts.count = fields.size(count, transformer_limits::experts, 2);
  experts.per_token =
      fields.size({"num_experts_per_tok", "experts_per_token"}, transformer_limits::experts);
}

// `key` is that of the fields that say which layers have experts.
void set_layers(const HuggingFaceFields& fields, const char* key, const std::vector<bool>& pattern,
                TransformerShape& shape) {
  if (const std::string problem = experts_problem(shape); !problem.empty())
    fields.in().problem("num_experts_per_tok", problem);
  if (!set_expert_layers(shape.experts, pattern))
    fields.in().problem(key, fmt::format("{} leaves experts to layers that are no regular row; "
                                         "supported: each n-th layer from some layer on",
                                         key));
}

}  // namespace

void read_mixtral_experts(const HuggingFaceFields& fields, TransformerShape& shape) {
  read_routed_experts(fields, {"num_local_experts", "num_experts"}, shape);
  shape.experts.feed_forward = shape.feed_forward;
  set_layers(fields, "num_hidden_layers",
             std::vector<bool>(static_cast<std::size_t>(shape.layers), true), shape);
}

// Routers, gates, up- and down-projections of all experts have biases (GptOssExperts,
// GptOssTopKRouter).
void read_gpt_oss_experts(const HuggingFaceFields& fields, TransformerShape& shape) {
  read_routed_experts(fields, {"num_local_experts", "num_experts"}, shape);
  shape.experts.feed_forward = shape.feed_forward;
  shape.experts.router_bias = true;
  set_layers(fields, "num_hidden_layers",
             std::vector<bool>(static_cast<std::size_t>(shape.layers), true), shape);
}

// Llama4TextConfig: moe_layers, or each interleave_moe_layer_step-th layer. Routed and shared
// experts have intermediate_size, an MLP has intermediate_size_mlp.
void read_llama4_experts(const HuggingFaceFields& fields, TransformerShape& shape) {
  namespace limits = transformer_limits;
  read_routed_experts(fields, {"num_local_experts", "num_experts"}, shape);
  Experts& experts = shape.experts;
  experts.feed_forward = experts.shared_feed_forward =
      fields.size({"intermediate_size"}, limits::feed_forward);
  shape.feed_forward = fields.size({"intermediate_size_mlp"}, limits::feed_forward);
  const std::int64_t step = fields.size_or({"interleave_moe_layer_step"}, 1, limits::layers);
  std::vector<bool> pattern(static_cast<std::size_t>(shape.layers));
  const auto listed = fields.in().find("moe_layers");
  if (listed)
    for (const ValueReader& layer : listed->list())
      pattern[static_cast<std::size_t>(
          layer.integer({.min = 0, .max = std::max<std::int64_t>(0, shape.layers - 1)}))] = true;
  else
    for (std::int64_t layer = step - 1; layer < shape.layers; layer += step)
      pattern[static_cast<std::size_t>(layer)] = true;
  set_layers(fields, listed ? "moe_layers" : "interleave_moe_layer_step", pattern, shape);
}

// A layer has experts if its number, counted from 1, is a multiple of decoder_sparse_step, and it
// is not in mlp_only_layers.
std::vector<bool> read_qwen_experts(const HuggingFaceFields& fields, TransformerShape& shape) {
  namespace limits = transformer_limits;
  read_routed_experts(fields, {"num_experts", "num_local_experts"}, shape);
  shape.experts.feed_forward = fields.size({"moe_intermediate_size"}, limits::feed_forward);
  const std::int64_t step = fields.size_or({"decoder_sparse_step"}, 1, limits::layers);
  std::vector<bool> pattern(static_cast<std::size_t>(shape.layers));
  for (std::size_t layer = 0; layer < pattern.size(); ++layer)
    pattern[layer] = (static_cast<std::int64_t>(layer) + 1) % step == 0;
  if (const auto dense = fields.in().find("mlp_only_layers"))
    for (const ValueReader& layer : dense->list())
      pattern[static_cast<std::size_t>(
          layer.integer({.min = 0, .max = std::max<std::int64_t>(0, shape.layers - 1)}))] = false;
  return pattern;
}

void read_qwen3_experts(const HuggingFaceFields& fields, TransformerShape& shape) {
  const std::vector<bool> pattern = read_qwen_experts(fields, shape);
  set_layers(fields, fields.in().has("mlp_only_layers") ? "mlp_only_layers" : "decoder_sparse_step",
             pattern, shape);
}

namespace {

// transformers 5 lists layers as dense or sparse.
std::vector<bool> listed_experts(const ValueReader& types, std::int64_t layers) {
  std::vector<bool> pattern;
  for (const ValueReader& type : types.list()) {
    const std::string text = type.text();
    if (text != "dense" && text != "sparse")
      type.problem(fmt::format("unknown kind of MLP \"{}\"; known: dense, sparse", text));
    pattern.push_back(text == "sparse");
  }
  if (static_cast<std::int64_t>(pattern.size()) != layers)
    types.problem(fmt::format("has {} layers, num_hidden_layers is {}", pattern.size(), layers));
  pattern.resize(static_cast<std::size_t>(layers));
  return pattern;
}

std::vector<bool> experts_from(const HuggingFaceFields& fields, std::int64_t layers) {
  namespace limits = transformer_limits;
  const std::int64_t first = fields.size({"first_k_dense_replace"}, limits::layers, 0);
  const std::int64_t step = fields.size_or({"moe_layer_freq"}, 1, limits::layers);
  std::vector<bool> pattern(static_cast<std::size_t>(layers));
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    pattern[i] = layer >= first && layer % step == 0;
  }
  return pattern;
}

}  // namespace

// A layer has experts from first_k_dense_replace on, if its number, counted from 0, is a multiple
// of moe_layer_freq (which transformers' own classes do not have).
void read_deepseek_experts(const HuggingFaceFields& fields, TransformerShape& shape) {
  namespace limits = transformer_limits;
  const ObjectReader& in = fields.in();
  read_routed_experts(fields, {"n_routed_experts", "num_local_experts", "num_experts"}, shape);
  Experts& experts = shape.experts;
  experts.feed_forward = fields.size({"moe_intermediate_size"}, limits::feed_forward);
  const std::int64_t shared =
      fields.is_null("n_shared_experts")
          ? 0
          : fields.size({"n_shared_experts", "num_shared_experts"}, 1024, 0);
  experts.shared_feed_forward =
      shared * (in.has("moe_shared_expert_intermediate_size")
                    ? fields.size({"moe_shared_expert_intermediate_size"}, limits::feed_forward)
                    : experts.feed_forward);
  // One group is none; topk_method greedy (DeepSeek-V2-Lite) chooses among all.
  if (in.has("n_group") && !fields.is_null("n_group") && !fields.is_null("topk_group")) {
    experts.groups = fields.size_or({"n_group"}, 1, limits::experts);
    experts.groups_per_token = fields.size_or({"topk_group"}, 1, limits::experts);
    if (experts.groups == 1) experts.groups = experts.groups_per_token = 0;
    if (const std::string problem = expert_groups_problem(experts); !problem.empty())
      in.problem("n_group", problem);
  }
  if (const auto types = in.find("mlp_layer_types"))
    set_layers(fields, "mlp_layer_types", listed_experts(*types, shape.layers), shape);
  else
    set_layers(fields, "first_k_dense_replace", experts_from(fields, shape.layers), shape);
  if (fields.flag("mlp_bias", false))
    in.problem("mlp_bias", "biases of an MLP beside experts are not supported");
}

// head_dim, where it is given, is that of the rotary part.
void read_deepseek_attention(const HuggingFaceFields& fields, TransformerShape& shape) {
  namespace limits = transformer_limits;
  const ObjectReader& in = fields.in();
  LatentAttention& latent = shape.latent;
  latent.query_rank =
      fields.is_null("q_lora_rank") ? 0 : fields.size({"q_lora_rank"}, limits::rank);
  latent.key_value_rank = fields.size({"kv_lora_rank"}, limits::rank);
  latent.plain_dim = fields.size({"qk_nope_head_dim"}, limits::head_dim);
  latent.rotary_dim = fields.size({"qk_rope_head_dim"}, limits::head_dim);
  latent.value_dim = fields.size({"v_head_dim"}, limits::head_dim);
  shape.head_dim = latent.plain_dim + latent.rotary_dim;
  shape.kv_heads = fields.size_or({"num_key_value_heads"}, shape.heads, limits::heads);
  if (shape.kv_heads != shape.heads)
    in.problem("num_key_value_heads",
               fmt::format("{} key/value heads; allowed with latent attention: {}, as heads",
                           shape.kv_heads, shape.heads));
  if (shape.qkv_bias && latent.query_rank == 0)
    in.problem("attention_bias", "attention_bias without q_lora_rank is not supported");
}

namespace {

// GlmMoeDsaConfig: indexer_types; else index_topk_pattern, or one layer of index_topk_freq behind
// the first ones, which index_skip_topk_offset counts.
LayerSet layers_with_indexers(const HuggingFaceFields& fields, std::int64_t layers) {
  namespace limits = transformer_limits;
  const ObjectReader& in = fields.in();
  LayerSet set;
  if (const auto types = in.find("indexer_types")) {
    const std::vector<ValueReader> list = types->list();
    if (static_cast<std::int64_t>(list.size()) != layers)
      types->problem(fmt::format("has {} layers, num_hidden_layers is {}", list.size(), layers));
    for (std::size_t layer = 0; layer < list.size(); ++layer) {
      const std::string text = list[layer].text();
      if (text == "full") set.layers.push_back(static_cast<std::int64_t>(layer));
      if (text != "full" && text != "shared")
        list[layer].problem(fmt::format("unknown indexer \"{}\"; known: full, shared", text));
    }
    return set;
  }
  if (in.has("index_topk_pattern")) {
    in.problem("index_topk_pattern", "without indexer_types, which say the same, it is not read");
    return set;
  }
  const std::int64_t every = fields.size_or({"index_topk_freq"}, 1, limits::layers);
  const std::int64_t offset =
      in.integer_or("index_skip_topk_offset", 2, {.min = 1, .max = limits::layers});
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (std::max<std::int64_t>(layer - offset + 1, 0) % std::max<std::int64_t>(1, every) == 0)
      set.layers.push_back(layer);
  return set;
}

}  // namespace

void read_deepseek_indexer(const HuggingFaceFields& fields, TransformerShape& shape) {
  namespace limits = transformer_limits;
  shape.sparse.index_heads = fields.size({"index_n_heads"}, limits::heads);
  shape.sparse.index_dim = fields.size({"index_head_dim"}, limits::head_dim);
  shape.sparse.top_keys = fields.size({"index_topk"}, limits::rows);
  if (shape.latent.query_rank == 0)
    fields.in().problem("q_lora_rank", "an indexer without q_lora_rank is not supported");
  LayerSet indexers = layers_with_indexers(fields, shape.layers);
  if (std::cmp_less(indexers.layers.size(), shape.layers)) shape.sparse.indexers = indexers;
  if (const std::string problem = indexers_problem(shape); !problem.empty())
    fields.in().problem(fields.in().has("indexer_types") ? "indexer_types" : "index_topk_freq",
                        problem);
}

}  // namespace sim
