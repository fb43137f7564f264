// The families of all shipped models are read from a Hugging Face config.json.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "sim/config/reader.hpp"
#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

class Config {
 public:
  template <class T>
  void add(std::initializer_list<const char*> names, const T& value) {
    for (const char* name : names)
      fields_.push_back(fmt::format("\"{}\": {}", name, value));
  }
  void text(const char* name, std::string_view value) {
    fields_.push_back(fmt::format("\"{}\": \"{}\"", name, value));
  }
  std::string take() const { return fmt::format("{{{}}}", fmt::join(fields_, ",\n")); }

 private:
  std::vector<std::string> fields_;
};

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::ranges::find(all, text) != all.end();
}

void add_experts(const TransformerShape& shape, Config& config) {
  const Experts& experts = shape.experts;
  if (experts.count == 0) return;
  const bool own_width = shape.family == "nemotron_h";
  const std::int64_t shared = own_width ? 1 : experts.shared_feed_forward / experts.feed_forward;
  config.add({"num_experts", "num_local_experts", "n_routed_experts"}, experts.count);
  config.add({"num_experts_per_tok"}, experts.per_token);
  config.add({"moe_intermediate_size"}, experts.feed_forward);
  config.add({"interleave_moe_layer_step"}, experts.every);
  config.add({"n_shared_experts", "num_shared_experts"}, shared);
  config.add({"shared_expert_intermediate_size"}, experts.shared_feed_forward);
  config.add({"moe_shared_expert_intermediate_size"},
             own_width ? experts.shared_feed_forward : experts.feed_forward);
  config.add({"first_k_dense_replace"}, experts.first_layer);
  config.add({"moe_layer_freq"}, experts.every);
  if (experts.groups > 0) config.add({"n_group"}, experts.groups);
  if (experts.groups > 0) config.add({"topk_group"}, experts.groups_per_token);
  if (experts.latent > 0) config.add({"moe_latent_size"}, experts.latent);
}

void add_latent(const TransformerShape& shape, Config& config) {
  if (!shape.latent.exists()) return;
  const LatentAttention& latent = shape.latent;
  if (latent.query_rank > 0)
    config.add({"q_lora_rank"}, latent.query_rank);
  else
    config.add({"q_lora_rank"}, "null");
  config.add({"kv_lora_rank"}, latent.key_value_rank);
  config.add({"qk_nope_head_dim"}, latent.plain_dim);
  config.add({"qk_rope_head_dim"}, latent.rotary_dim);
  config.add({"v_head_dim"}, latent.value_dim);
  config.add({"index_n_heads"}, shape.sparse.index_heads);
  config.add({"index_head_dim"}, shape.sparse.index_dim);
  config.add({"index_topk"}, shape.sparse.top_keys);
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer)
    types.emplace_back(shape.sparse.chooses(layer) ? "\"full\"" : "\"shared\"");
  config.add({"indexer_types"}, fmt::format("[{}]", fmt::join(types, ", ")));
}

void add_layers(const TransformerShape& shape, Config& config) {
  if (!shape.hybrid.exists()) return;
  std::string letters;
  std::vector<std::string> types;
  for (const LayerKind& layer : shape.hybrid.layers) {
    const bool linear = layer.mixer == Mixer::gated_delta_net;
    types.emplace_back(linear ? "\"linear_attention\"" : "\"full_attention\"");
    letters += layer.mixer == Mixer::mamba2                 ? 'M'
               : layer.mixer == Mixer::attention            ? '*'
               : layer.feed_forward == FeedForward::experts ? 'E'
                                                            : '-';
  }
  if (shape.family == "nemotron_h")
    config.text("hybrid_override_pattern", letters);
  else
    config.add({"layer_types"}, fmt::format("[{}]", fmt::join(types, ", ")));
  const GatedDeltaNet& net = shape.hybrid.delta_net;
  config.add({"linear_num_key_heads"}, net.key_heads);
  config.add({"linear_num_value_heads"}, net.value_heads);
  config.add({"linear_key_head_dim"}, net.key_dim);
  config.add({"linear_value_head_dim"}, net.value_dim);
  const Mamba2& mamba = shape.hybrid.mamba;
  config.add({"mamba_num_heads"}, mamba.heads);
  config.add({"mamba_head_dim"}, mamba.head_dim);
  config.add({"ssm_state_size"}, mamba.state);
  config.add({"n_groups"}, mamba.groups);
}

// The sizes of a shape by every name that families have for them.
std::string config_of(const TransformerShape& shape) {
  Config config;
  config.text("model_type", shape.family);
  config.add({"num_hidden_layers", "n_layer", "n_layers"}, shape.layers);
  config.add({"hidden_size", "n_embd", "d_model"}, shape.hidden);
  config.add({"num_attention_heads", "n_head", "n_heads"}, shape.heads);
  config.add({"num_key_value_heads"}, shape.kv_heads);
  if (!shape.latent.exists()) config.add({"head_dim"}, shape.head_dim);
  const bool of_experts =
      is_one_of(shape.family, {"mixtral", "gpt_oss", "minimax_m2", "llama4_text"});
  const std::int64_t width = of_experts ? shape.experts.feed_forward : shape.feed_forward;
  if (width > 0) config.add({"intermediate_size"}, width);
  config.add({"intermediate_size_mlp"}, shape.feed_forward);
  config.add({"expansion_ratio"}, std::max<std::int64_t>(1, width / shape.hidden));
  config.add({"vocab_size"}, shape.vocabulary);
  if (shape.max_sequence > 0)
    config.add({"max_position_embeddings", "n_positions"}, shape.max_sequence);
  const std::string_view activation = shape.activation == Activation::swiglu         ? "silu"
                                      : shape.activation == Activation::squared_relu ? "relu2"
                                                                                     : "gelu";
  for (const char* name : {"hidden_act", "hidden_activation", "mlp_hidden_act"})
    config.text(name, activation);
  config.add({"tie_word_embeddings"}, shape.tied_head);
  config.add({"attention_bias", "use_bias", "use_qkv_bias"}, shape.qkv_bias);
  config.add({"mlp_bias"}, shape.mlp_bias && !of_experts);
  config.add({"no_bias"}, !shape.qkv_bias);
  config.add({"use_qk_norm"}, shape.qk_norm);
  config.add({"partial_rotary_factor"}, shape.rotary_share);
  config.add({"rotary_dim"},
             static_cast<std::int64_t>(static_cast<double>(shape.head_dim) * shape.rotary_share));
  add_experts(shape, config);
  add_latent(shape, config);
  add_layers(shape, config);
  return config.take();
}

}  // namespace

TEST_CASE("the families of all shipped models are read from a config.json", "[model]") {
  std::set<std::string> families;
  for (const auto& entry : std::filesystem::directory_iterator{test::source_dir() + "/models"}) {
    // The small ones of runs of our own are of no family.
    const bool own = entry.path().filename().string().starts_with("byte-");
    if (entry.path().extension() != ".yaml" || own) continue;
    const Model model = load_model(entry.path().string());
    // Depths of multi-token prediction are no part of transformers' classes; vision encoders have
    // tests of their own.
    if (!model.shape || model.shape->mtp_layers > 0 || model.has_vision()) continue;
    const TransformerShape& shape = *model.shape;
    // No family of transformers; blocks that differ one by one; encoders, which have tests of their
    // own.
    if (is_one_of(shape.family, {"megatron", "gpt3", "nemotron-nas", "bert", "distilbert", "vit"}))
      continue;
    CAPTURE(entry.path().string());
    const Model read = read_model(Document::parse_json(config_of(shape), "a/config.json"));
    CHECK(read.parameters() == model.parameters());
    CHECK(read.shape->qk_norm == shape.qk_norm);
    CHECK(read.shape->rotary_share == shape.rotary_share);
    CHECK(read.shape->experts == shape.experts);
    CHECK(read.shape->sparse == shape.sparse);
    CHECK(read.shape->attention_chunk == shape.attention_chunk);
    CHECK(read.max_sequence == model.max_sequence);
    families.insert(shape.family);
  }
  CHECK(families.size() >= 30);
}

TEST_CASE("Qwen3.5 is read with and without text_config, and without its wrapper", "[model]") {
  const std::string fields = R"("num_hidden_layers": 4, "hidden_size": 64,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1000,
      "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 16,
      "linear_value_head_dim": 16, "full_attention_interval": 4, "mtp_num_hidden_layers": 1,
      "tie_word_embeddings": false, "rope_parameters": {"partial_rotary_factor": 0.25})";
  const std::string experts = R"(, "num_experts": 8, "num_experts_per_tok": 2,
      "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32})";
  const std::string dense = R"(, "intermediate_size": 128})";
  for (const bool moe : {false, true}) {
    const std::string& rest = moe ? experts : dense;
    const std::string name = moe ? "qwen3_5_moe" : "qwen3_5";
    const auto read = [](const std::string& text) {
      return read_model(Document::parse_json(text, "a/config.json"));
    };
    const std::string text = R"({"model_type": ")" + name + R"(_text", )" + fields + rest;
    const Model bare = read(text);
    CHECK(bare.shape->hybrid.has(Mixer::gated_delta_net));
    CHECK((bare.shape->experts.count > 0) == moe);
    CHECK(bare.notes.front() ==
          "mtp_num_hidden_layers: 1 layers of multi-token prediction are left out");
    CHECK(read(R"({"model_type": ")" + name + R"(", )" + fields + rest).parameters() ==
          bare.parameters());
    CHECK(read(R"({"model_type": ")" + name + R"(", "vision_config": {}, "text_config": )" + text +
               "}")
              .parameters() == bare.parameters());
  }
}

TEST_CASE("MiniMax's layers of linear attention and shared experts are refused", "[model]") {
  const std::string fields = R"({"model_type": "minimax_m2", "num_hidden_layers": 2,
      "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
      "intermediate_size": 32, "vocab_size": 1000, "num_local_experts": 8,
      "num_experts_per_tok": 2, "rotary_dim": 8)";
  const auto read = [&](const std::string& more) {
    return read_model(Document::parse_json(fields + more + "}", "a/config.json"));
  };
  CHECK(read("").shape->rotary_share == 0.5);
  CHECK(read("").shape->qk_norm_whole);
  CHECK_FALSE(read(R"(, "use_qk_norm": false)").shape->qk_norm_whole);
  CHECK_THROWS_AS(read(R"(, "attn_type_list": [1, 0])"), InputError);
  CHECK_THROWS_AS(read(R"(, "shared_intermediate_size": 32)"), InputError);
}
