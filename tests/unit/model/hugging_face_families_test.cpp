// Families of Hugging Face config.json: what each has that Llama has not, with the parameter counts
// of released models.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "sim/config/reader.hpp"
#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

Model imported(const std::string& json) {
  return read_model(Document::parse_json(json, "some-model/config.json"));
}

std::string first_problem(const std::string& json) {
  try {
    imported(json);
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "no error";
}

struct Sizes {
  std::int64_t layers, hidden, heads, kv_heads, feed_forward, vocabulary;
};

std::string config(const std::string& type, const Sizes& sizes, const std::string& more = "") {
  return fmt::format(R"({{"model_type": "{}", "num_hidden_layers": {}, "hidden_size": {},
      "num_attention_heads": {}, "num_key_value_heads": {}, "intermediate_size": {},
      "vocab_size": {}{}}})",
                     type, sizes.layers, sizes.hidden, sizes.heads, sizes.kv_heads,
                     sizes.feed_forward, sizes.vocabulary, more);
}

const Sizes small{
    .layers = 4, .hidden = 64, .heads = 4, .kv_heads = 2, .feed_forward = 128, .vocabulary = 1'000};

std::vector<std::int64_t> windows_of(const Model& model) {
  std::vector<std::int64_t> windows;
  for (const Block& layer : model.layers)
    for (const ModelOp& op : layer.ops)
      if (op.kind == ModelOpKind::attention) windows.push_back(op.window);
  return windows;
}

std::vector<std::string> names_of(const Block& block) {
  std::vector<std::string> names;
  for (const ModelOp& op : block.ops)
    names.push_back(op.name);
  return names;
}

std::size_t count_of(const Block& block, std::string_view name) {
  return static_cast<std::size_t>(
      std::count_if(block.ops.begin(), block.ops.end(),
                    [&](const ModelOp& op) { return op.name.find(name) != std::string::npos; }));
}

}  // namespace

TEST_CASE("released models have their parameters to the last one", "[model]") {
  struct Released {
    std::string json;
    std::int64_t parameters;
  };
  const Released released = GENERATE(
      Released{config("phi3", {40, 5'120, 40, 10, 17'920, 100'352}), 14'659'507'200},
      Released{config("olmo2", {64, 5'120, 40, 8, 27'648, 100'352}), 32'234'279'936},
      Released{config("gemma3_text", {26, 1'152, 4, 1, 6'912, 262'144}, R"(, "head_dim": 256)"),
               999'885'952},
      Released{config("smollm3", {36, 2'048, 16, 4, 11'008, 128'256}), 3'075'098'624},
      Released{config("ernie4_5", {18, 1'024, 16, 2, 3'072, 103'424}, R"(, "head_dim": 128)"),
               360'748'032},
      Released{
          config("granite", {40, 4'096, 32, 8, 12'800, 49'159}, R"(, "tie_word_embeddings": true)"),
          8'170'864'640},
      // The vocabulary of Granite 3.1 and 3.2.
      Released{
          config("granite", {40, 4'096, 32, 8, 12'800, 49'155}, R"(, "tie_word_embeddings": true)"),
          8'170'848'256},
      // 2.61 and 27.2 billion in arXiv:2408.00118, table 1, to the last one as released.
      Released{config("gemma2", {26, 2'304, 8, 4, 9'216, 256'000}, R"(, "head_dim": 256)"),
               2'614'341'888},
      Released{config("gemma2", {46, 4'608, 32, 16, 36'864, 256'000}, R"(, "head_dim": 128)"),
               27'227'128'320},
      Released{config("gemma", {18, 2'048, 8, 1, 16'384, 256'000}, R"(, "head_dim": 256)"),
               2'506'172'416},
      Released{config("glm4", {40, 4'096, 32, 2, 13'696, 151'552}, R"(, "head_dim": 128)"),
               9'400'279'040},
      Released{config("glm4", {61, 6'144, 48, 2, 23'040, 151'552},
                      R"(, "head_dim": 128, "attention_bias": false)"),
               32'566'081'536},
      Released{config("gpt_oss", {24, 2'880, 64, 8, 2'880, 201'088},
                      R"(, "head_dim": 64, "num_local_experts": 32, "num_experts_per_tok": 4)"),
               20'914'757'184});
  CAPTURE(released.json);
  REQUIRE(imported(released.json).parameters() == released.parameters);
}

TEST_CASE("OLMo 2 has norms behind its branches and over all heads", "[model]") {
  const Model model = imported(config("olmo2", small));
  CHECK(names_of(model.layers.front()) ==
        std::vector<std::string>{"qkv", "qk_norm", "rotary", "attention", "attention_projection",
                                 "attention_output_norm", "attention_residual", "mlp_up",
                                 "activation", "mlp_down", "mlp_output_norm", "mlp_residual"});
  CHECK(names_of(model.output).front() == "final_norm");
  // Queries are 64 wide, keys 32: a scale for each feature.
  CHECK(model.layers.front().ops[1].biases == 96);
  CHECK(model.layers.front().ops[1].in_features == 96);
  CHECK(model.layers.front().ops[6].residual_of == 0);
}

TEST_CASE("Gemma and GLM-4 have norms before and behind their branches", "[model]") {
  const std::string width = R"(, "head_dim": 16)";
  const Model gemma = imported(config("gemma2", small, width));
  CHECK(count_of(gemma.layers.front(), "norm") == 4);
  CHECK(names_of(gemma.input) == std::vector<std::string>{"embedding", "embedding_scale"});
  CHECK(names_of(gemma.output) ==
        std::vector<std::string>{"final_norm", "head", "logit_softcap", "cross_entropy"});
  CHECK(gemma.attention.softcap);
  CHECK(gemma.tied_embedding);
  CHECK(gemma.shape->activation == Activation::geglu);
  const Model uncapped = imported(
      config("gemma2", small,
             width + R"(, "final_logit_softcapping": null, "attn_logit_softcapping": null)"));
  CHECK(count_of(uncapped.output, "softcap") == 0);
  CHECK_FALSE(uncapped.attention.softcap);
  CHECK_FALSE(imported(config("gemma3_text", small, width)).attention.softcap);
  const Model glm = imported(config("glm4", small, width));
  CHECK(count_of(glm.layers.front(), "norm") == 4);
  CHECK(glm.shape->rotary_share == 0.5);
  CHECK(count_of(imported(config("glm", small, width)).layers.front(), "norm") == 2);
}

TEST_CASE("GLM-4 has biases of queries, keys and values unless it says otherwise", "[model]") {
  const std::string width = R"(, "head_dim": 16)";
  const std::int64_t biased = imported(config("glm4", small, width)).parameters();
  CHECK(biased -
            imported(config("glm4", small, width + R"(, "attention_bias": false)")).parameters() ==
        4 * (64 + 2 * 32));
  CHECK(imported(config("glm", small, width + R"(, "attention_bias": true)")).parameters() -
            imported(config("glm", small, width)).parameters() ==
        4 * (64 + 2 * 32));
}

TEST_CASE("ERNIE's use_bias is of every linear", "[model]") {
  const std::string width = R"(, "head_dim": 16)";
  CHECK(imported(config("ernie4_5", small, width + R"(, "use_bias": true)")).parameters() -
            imported(config("ernie4_5", small, width)).parameters() ==
        4 * (64 + 2 * 32 + 64 + 2 * 128 + 64));
}

TEST_CASE("Granite scales the embedding, every branch and the logits", "[model]") {
  const Model model = imported(config("granite", small));
  CHECK(count_of(model.input, "embedding_scale") == 1);
  CHECK(count_of(model.layers.front(), "scale") == 2);
  CHECK(count_of(model.output, "logit_scale") == 1);
  const ModelOp& scale = model.layers.front().ops[5];
  REQUIRE(scale.name == "attention_scale");
  CHECK(scale.forward_elements == 2 * 64);
  CHECK(scale.backward_elements == 2 * 64);
  CHECK(scale.saved_elements == 0);
}

TEST_CASE("layers without rotary positions are those that the file lists", "[model]") {
  const auto turned = [](const Model& model) {
    std::string text;
    for (const Block& layer : model.layers)
      text += count_of(layer, "rotary") == 1 ? '1' : '0';
    return text;
  };
  CHECK(turned(imported(config("smollm3", small))) == "1110");
  CHECK(turned(imported(config("smollm3", small, R"(, "no_rope_layer_interval": 2)"))) == "1010");
  CHECK(turned(imported(config("smollm3", small, R"(, "no_rope_layers": [0, 1, 1, 0])"))) ==
        "0110");
  CHECK(first_problem(config("smollm3", small, R"(, "no_rope_layers": [1])")) ==
        "has 1 layers, num_hidden_layers is 4");
}

TEST_CASE("a sliding window is a window of the layers that have it", "[model]") {
  using Windows = std::vector<std::int64_t>;
  const auto windows = [](const std::string& type, const std::string& more) {
    const Model model = imported(config(type, small, R"(, "head_dim": 16)" + more));
    CHECK(model.max_sequence == 0);
    return windows_of(model);
  };
  CHECK(windows("mistral", R"(, "sliding_window": 4096)") == Windows{4096, 4096, 4096, 4096});
  CHECK(windows("mistral", R"(, "sliding_window": null)") == Windows{0, 0, 0, 0});
  CHECK(windows("mistral", R"(, "sliding_window": 8, "layer_types": ["full_attention",
      "sliding_attention", "full_attention", "full_attention"])") == Windows{0, 8, 0, 0});
  CHECK(windows("phi3", R"(, "sliding_window": 2047)") == Windows{2047, 2047, 2047, 2047});
  CHECK(windows("qwen2", R"(, "sliding_window": 8, "max_window_layers": 3)") ==
        Windows{0, 0, 0, 0});
  CHECK(windows("qwen2",
                R"(, "sliding_window": 8, "max_window_layers": 3, "use_sliding_window": true)") ==
        Windows{0, 0, 0, 8});
  CHECK(windows("qwen2", R"(, "sliding_window": 8, "use_sliding_window": true)") ==
        Windows{0, 0, 0, 0});  // 28 layers come before the first
  CHECK(windows("gemma2", "") == Windows{4096, 0, 4096, 0});
  CHECK(windows("gemma3_text", R"(, "sliding_window": 8, "sliding_window_pattern": 3)") ==
        Windows{8, 8, 0, 8});
  CHECK(windows("olmo3", "") == Windows{4096, 4096, 4096, 0});
  CHECK(first_problem(config("mistral", small, R"(, "layer_types": ["full_attention"])")) ==
        "has 1 layers, num_hidden_layers is 4");
  CHECK(first_problem(config("mistral", small, R"(, "layer_types": ["full_attention",
      "chunked_attention", "full_attention", "full_attention"])")) ==
        "unknown layer type \"chunked_attention\"; known: full_attention, sliding_attention");
}

TEST_CASE("gpt-oss has sinks, biases of experts and routers, and windows in half of its layers",
          "[model]") {
  const Model model = imported(config("gpt_oss", small, R"(, "head_dim": 16, "num_local_experts": 8,
          "num_experts_per_tok": 2, "sliding_window": 32)"));
  CHECK(model.shape->attention_sinks);
  CHECK(model.shape->experts.router_bias);
  CHECK(windows_of(model) == std::vector<std::int64_t>{32, 0, 32, 0});
  // Attention: 64 x 128 and 64 x 64 with biases, sinks of 4 heads; router 64 x 8 and biases; each
  // expert 64 x 256 and 128 x 64 with biases; two norms.
  CHECK(model.layers.front().parameters() == 64 * 128 + 128 + 64 * 64 + 64 + 4 + 64 * 8 + 8 +
                                                 8 * (64 * 256 + 256 + 128 * 64 + 64) + 128);
}

TEST_CASE("of a model of several modalities the language model is read, and the rest is told",
          "[model]") {
  const std::string text = config("llama", small);
  const Model model = imported(
      R"({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"],
      "tie_word_embeddings": true, "vision_config": {"hidden_size": 8}, "text_config": )" +
      text + "}");
  CHECK(model.parameters() == imported(text).parameters() - 64'000);  // tied by the wrapper
  REQUIRE(model.notes.size() == 1);
  CHECK(model.notes[0] ==
        "llava: the language model of text_config alone; neither parameters nor time of "
        "vision_config are in the forecast");
  CHECK(imported(text).notes.empty());
  const Model flat = imported(config("qwen2_5_vl", small, R"(, "vision_config": {"depth": 32})"));
  CHECK(flat.parameters() == imported(config("qwen2", small)).parameters());
  REQUIRE(flat.notes.size() == 1);
}

TEST_CASE("what the text part of Gemma 3 leaves out is its class's, which is noted", "[model]") {
  const Model model = imported(R"({"model_type": "gemma3", "vision_config": {}, "text_config": {
      "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
      "num_hidden_layers": 34, "sliding_window": 1024}})");
  CHECK(model.parameters() == 3'880'263'168);
  CHECK(model.notes.size() == 5);
  CHECK(windows_of(model)[5] == 0);
  CHECK(windows_of(model)[6] == 1024);
}

TEST_CASE("a model file of ours says all that a config.json can", "[model]") {
  const std::string width = R"(, "head_dim": 16)";
  const std::string json = GENERATE_COPY(
      config("phi3", small, R"(, "partial_rotary_factor": 0.75)"), config("olmo2", small),
      config("olmo3", small), config("smollm3", small), config("ernie4_5", small, width),
      config("granite", small), config("glm4", small, width), config("gemma2", small, width),
      config("gemma3_text", small, width),
      config("gpt_oss", small, width + R"(, "num_local_experts": 8, "num_experts_per_tok": 2)"));
  CAPTURE(json);
  const Model model = imported(json);
  REQUIRE(has_transformer_yaml(*model.shape));
  const std::string yaml = transformer_yaml(*model.shape, 0);
  CAPTURE(yaml);
  const Model again = read_model(Document::parse_yaml(yaml, "again.yaml"));
  REQUIRE(again.shape == model.shape);
}

TEST_CASE("a folder with a config.json is a model", "[model]") {
  const std::filesystem::path folder = test::temporary_path("my-phi");
  std::filesystem::create_directories(folder);
  std::ofstream{folder / "config.json"} << config("phi3", small);
  CHECK(load_model(folder.string()).name == folder.filename().string());
  std::filesystem::remove(folder / "config.json");
  REQUIRE_THROWS_AS(load_model(folder.string()), InputError);
}

TEST_CASE("Llama 4 norms queries without weights and attends in chunks where it has positions",
          "[model]") {
  const std::string more = R"(, "head_dim": 16, "intermediate_size_mlp": 256,
      "num_local_experts": 8, "num_experts_per_tok": 1, "no_rope_layers": [])";
  const Model model = imported(R"({"model_type": "llama4", "text_config": )" +
                               config("llama4_text", small, more) + "}");
  const TransformerShape& shape = *model.shape;
  CHECK(shape.attention_chunk == 8'192);
  CHECK(shape.experts.shared_feed_forward == 128);
  CHECK(shape.feed_forward == 256);
  CHECK(shape.without_positions.layers == std::vector<std::int64_t>{3});
  CHECK(count_of(model.layers[0], "qk_norm") == 1);
  CHECK(count_of(model.layers[3], "qk_norm") == 0);
  const Model bare = imported(config("llama4_text", small, more + R"(, "use_qk_norm": false)"));
  CHECK(bare.parameters() == model.parameters());
  CHECK(count_of(bare.layers[0], "qk_norm") == 0);
  const Model each_second =
      imported(config("llama4_text", small, more + R"(, "interleave_moe_layer_step": 2)"));
  CHECK(each_second.shape->experts.first_layer == 1);
  CHECK(each_second.shape->experts.every == 2);
  CHECK(imported(config("llama4_text", small, more + R"(, "attention_chunk_size": null)"))
            .shape->attention_chunk == 0);
  CHECK(first_problem(config("llama4_text", small, more + R"(, "moe_layers": [0, 1, 3])"))
            .find("no regular row") != std::string::npos);
}

// FalconH1DecoderLayer, counted by hand: Mamba-2 without a norm, attention, a gated MLP, two norms.
TEST_CASE("Falcon-H1 has attention and Mamba-2 side by side", "[model]") {
  const std::string scans = R"(, "mamba_d_ssm": 96, "mamba_n_heads": 6, "mamba_d_head": 16,
      "mamba_n_groups": 2, "mamba_d_state": 32, "mamba_d_conv": 4, "mamba_chunk_size": 64)";
  const Model model = imported(config("falcon_h1", small, scans));
  const std::int64_t convolved = 96 + 2 * 2 * 32, projected = 2 * 96 + 2 * 2 * 32 + 6;
  const std::int64_t mamba = 64 * projected + convolved * 5 + 3 * 6 + 96 * 64;
  const std::int64_t attention = 64 * (64 + 2 * 32) + 64 * 64;
  CHECK(model.layers[0].parameters() == mamba + attention + 3 * 64 * 128 + 2 * 64);
  CHECK(names_of(model.layers[0]) == std::vector<std::string>{"input_norm",
                                                              "mamba_in",
                                                              "mamba_scale",
                                                              "mamba_convolution",
                                                              "mamba_scan",
                                                              "mamba_out",
                                                              "qkv",
                                                              "attention_scale",
                                                              "rotary",
                                                              "attention",
                                                              "attention_projection",
                                                              "mixer_sum",
                                                              "mixer_scale",
                                                              "mixer_residual",
                                                              "post_attention_norm",
                                                              "mlp_up",
                                                              "activation",
                                                              "mlp_down",
                                                              "mlp_scale",
                                                              "mlp_residual"});
  CHECK(imported(config("falcon_h1", small, scans + R"(, "mamba_rms_norm": true)"))
            .layers[0]
            .parameters() == model.layers[0].parameters() + 96);
  CHECK(first_problem(config("falcon_h1", small, scans + R"(, "mamba_proj_bias": true)")) ==
        "\"mamba_proj_bias\" is not supported");
  const TransformerShape& shape = *model.shape;
  const Model again = read_model(Document::parse_yaml(transformer_yaml(shape, 0), "again.yaml"));
  CHECK(*again.shape == shape);
}

// zai-org/GLM-5.2: index_topk_freq 4, index_skip_topk_offset 3.
TEST_CASE("layers of GLM-5.2 take what an earlier one chose", "[model]") {
  const std::string sizes = R"({"model_type": "glm_moe_dsa", "num_hidden_layers": 12,
      "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
      "intermediate_size": 128, "q_lora_rank": 32, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
      "qk_rope_head_dim": 8, "v_head_dim": 16, "index_n_heads": 4, "index_head_dim": 8,
      "index_topk": 32, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
      "moe_intermediate_size": 32, "first_k_dense_replace": 3, "vocab_size": 1000)";
  const Model shared = imported(sizes + R"(, "index_topk_freq": 4, "index_skip_topk_offset": 3})");
  CHECK(shared.shape->sparse.indexers.layers == std::vector<std::int64_t>{0, 1, 2, 6, 10});
  CHECK(count_of(shared.layers[2], "indexer") == 1);
  CHECK(count_of(shared.layers[3], "indexer") == 0);
  const Model all = imported(sizes + "}");
  CHECK(all.shape->sparse.indexers.empty());
  const std::int64_t indexer = 32 * 4 * 8 + 64 * 8 + 2 * 8 + 64 * 4;
  CHECK(all.parameters() == shared.parameters() + 7 * indexer);
  const Model again =
      read_model(Document::parse_yaml(transformer_yaml(*shared.shape, 0), "again.yaml"));
  CHECK(*again.shape == *shared.shape);
  CHECK(first_problem(sizes + R"(, "indexer_types": ["shared"]})")
            .starts_with("has 1 layers, num_hidden_layers is 12"));
}
