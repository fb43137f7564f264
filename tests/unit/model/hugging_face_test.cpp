#include "sim/config/reader.hpp"
#include "sim/model/model.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

Model imported(const std::string& json) {
  return read_model(Document::parse_json(json, "some-model/config.json"));
}

// A small Llama with `extra` members.
std::string small_llama(const std::string& extra = "") {
  return R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
  "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
  "intermediate_size": 128, "vocab_size": 1000)" +
         extra + "}";
}

std::string small_bert(const std::string& architecture) {
  return R"({"architectures": [")" + architecture + R"("], "hidden_size": 768,
  "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
  "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2})";
}

std::string first_problem(const std::string& json) {
  try {
    imported(json);
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "no error";
}

bool starts_with(const std::string& text, const std::string& start) {
  return text.substr(0, start.size()) == start;
}

}  // namespace

TEST_CASE("a Llama config.json is imported, unknown keys ignored, null taken as absent",
          "[model]") {
  const Model model = imported(small_llama(
      R"(, "rope_scaling": null, "head_dim": null, "pretraining_tp": 1, "x": {"y": []})"));
  REQUIRE(model.name == "some-model");
  REQUIRE(model.family == "llama");
  REQUIRE(model.attention.head_dim == 16);
  REQUIRE(model.attention.kv_heads == 2);
  // Two tables of 64,000; a layer: qkv 64 * 128, projection 64 * 64, MLP 3 * 64 * 128, norms 128.
  REQUIRE(model.parameters() == 2 * 64'000 + 2 * (8'192 + 4'096 + 24'576 + 128) + 64);
}

TEST_CASE("biases, ties and head width are honoured", "[model]") {
  const std::int64_t plain = imported(small_llama()).parameters();
  REQUIRE(imported(small_llama(R"(, "tie_word_embeddings": true)")).parameters() == plain - 64'000);
  // Biases of Q, K, V (64 + 2 * 32) and of the projection (64), in two layers.
  REQUIRE(imported(small_llama(R"(, "attention_bias": true)")).parameters() == plain + 2 * 192);
  // Gate, up and down.
  REQUIRE(imported(small_llama(R"(, "mlp_bias": true)")).parameters() ==
          plain + 2 * (2 * 128 + 64));
  // Heads of 32 instead of 16: Q, K, V and the projection double.
  REQUIRE(imported(small_llama(R"(, "head_dim": 32)")).parameters() == plain + 2 * (8'192 + 4'096));
}

TEST_CASE("GPT-2 reads either spelling of its fields", "[model]") {
  const std::string own = R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
      "n_positions": 1024, "n_ctx": 1024, "n_inner": null, "vocab_size": 50257})";
  const std::string alias = R"({"model_type": "gpt2", "hidden_size": 768, "num_hidden_layers": 12,
      "num_attention_heads": 12, "max_position_embeddings": 1024, "vocab_size": 50257})";
  REQUIRE(imported(own).parameters() == 124'439'808);
  REQUIRE(imported(alias).parameters() == 124'439'808);
  REQUIRE(imported(own).attention.dropout);
}

TEST_CASE("two spellings of one field must agree", "[model]") {
  REQUIRE(first_problem(R"({"model_type": "gpt2", "n_embd": 768, "hidden_size": 1024,
      "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})") ==
          "\"hidden_size\" and \"n_embd\" are two names of one field and differ");
}

TEST_CASE("the architecture decides the head of BERT", "[model]") {
  REQUIRE(imported(small_bert("BertModel")).parameters() == 109'482'240);
  REQUIRE(imported(small_bert("BertForMaskedLM")).parameters() == 109'514'298);
  REQUIRE(imported(small_bert("BertForPreTraining")).parameters() == 110'106'428);
}

TEST_CASE("DistilBERT is read by its own field names", "[model]") {
  const std::string fields = R"("dim": 768, "n_layers": 6, "n_heads": 12, "hidden_dim": 3072,
      "vocab_size": 30522, "max_position_embeddings": 512})";
  REQUIRE(imported(R"({"architectures": ["DistilBertModel"], )" + fields).parameters() ==
          66'362'880);
  REQUIRE(imported(R"({"architectures": ["DistilBertForMaskedLM"], )" + fields).parameters() ==
          66'985'530);
}

TEST_CASE("Qwen2 has biases on Q, K and V, Qwen3 norms on Q and K", "[model]") {
  const std::string fields = R"("num_hidden_layers": 24, "hidden_size": 896,
      "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,
      "vocab_size": 151936, "tie_word_embeddings": true, "sliding_window": 131072,
      "use_sliding_window": false})";
  const Model qwen2 = imported(R"({"model_type": "qwen2", )" + fields);
  const Model qwen3 = imported(R"({"model_type": "qwen3", )" + fields);
  REQUIRE(qwen2.parameters() == 494'032'768);
  REQUIRE(qwen2.max_sequence == 0);
  // 18 heads of 64 have a bias each; norms of 64 for Q and for K.
  REQUIRE(qwen2.parameters() - qwen3.parameters() == 24 * (18 * 64 - 2 * 64));
}

TEST_CASE("transformers 5 spells dtype and rotary parameters anew, which changes nothing",
          "[model]") {
  const Model v4 = imported(small_llama(
      R"(, "torch_dtype": "bfloat16", "rope_theta": 5e5, "rope_scaling": {"factor": 8.0})"));
  const Model v5 = imported(small_llama(
      R"(, "dtype": "bfloat16", "rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3"})"));
  REQUIRE(v4.parameters() == v5.parameters());
}

TEST_CASE("ViT counts its classes from their names", "[model]") {
  const Model model = imported(R"({"model_type": "vit", "hidden_size": 768,
      "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
      "id2label": {"0": "cat", "1": "dog", "2": "tree"}})");
  REQUIRE(model.fixed_sequence == 197);
  REQUIRE(model.parameters() == 86'567'656 - 997 * 769);
}

TEST_CASE("Mixtral has experts of intermediate_size in every layer", "[model]") {
  const std::string fields = R"("hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
      "vocab_size": 32000, "sliding_window": null, "num_experts_per_tok": 2)";
  const Model model = imported(R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral",
      "num_local_experts": 8, )" +
                               fields + "}");
  REQUIRE(model.parameters() == 46'702'792'704);
  REQUIRE(model.active_parameters() == 12'879'925'248);
  REQUIRE(model.shape->experts ==
          Experts{.count = 8, .per_token = 2, .feed_forward = 14'336, .every = 1});
  // As transformers 5 may spell it.
  REQUIRE(imported(R"({"model_type": "mixtral", "num_experts": 8, )" + fields + "}").shape ==
          model.shape);
  REQUIRE(first_problem(R"({"model_type": "mixtral", "num_experts": 8, "num_local_experts": 4, )" +
                        fields + "}") ==
          "\"num_experts\" and \"num_local_experts\" are two names of one field and differ");
  REQUIRE(first_problem(R"({"model_type": "mixtral", "num_local_experts": 1, )" + fields + "}") ==
          "num_local_experts is 1; allowed: 2 to 65536");
}

TEST_CASE("Qwen3-MoE names the layers without experts in two ways", "[model]") {
  const auto config = [](const std::string& layers, const std::string& more) {
    return R"({"model_type": "qwen3_moe", "hidden_size": 2048, "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 6144, "vocab_size": 151936,
        "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
        "num_hidden_layers": )" +
           layers + more + "}";
  };
  const Model plain =
      imported(config("48", R"(, "decoder_sparse_step": 1, "mlp_only_layers": [])"));
  REQUIRE(plain.parameters() == 30'532'122'624);
  REQUIRE(plain.active_parameters() == 3'353'032'704);
  const auto experts = [&](const std::string& more) {
    const Experts found = imported(config("8", more)).shape->experts;
    return std::pair{found.first_layer, found.every};
  };
  using Layers = std::pair<std::int64_t, std::int64_t>;
  REQUIRE(experts("") == Layers{0, 1});
  REQUIRE(experts(R"(, "decoder_sparse_step": 2)") == Layers{1, 2});
  REQUIRE(experts(R"(, "mlp_only_layers": [1, 0, 2])") == Layers{3, 1});
  REQUIRE(experts(R"(, "mlp_only_layers": [0, 1], "decoder_sparse_step": 2)") == Layers{3, 2});
  REQUIRE(experts(R"(, "mlp_only_layers": [0, 2, 4, 6])") == Layers{1, 2});
  REQUIRE(first_problem(config("8", R"(, "mlp_only_layers": [4])")) ==
          "mlp_only_layers leaves experts to layers that are no regular row; supported: each n-th "
          "layer from some layer on");
  REQUIRE(first_problem(config("8", R"(, "decoder_sparse_step": 9)")) ==
          "decoder_sparse_step leaves experts to layers that are no regular row; supported: each "
          "n-th layer from some layer on");
  REQUIRE(first_problem(config("8", R"(, "mlp_only_layers": [8])")) ==
          "mlp_only_layers[0] is 8; allowed: 0 to 7");
}

namespace {

const std::string deepseek_v3 = R"("hidden_size": 7168, "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
    "vocab_size": 129280, "moe_intermediate_size": 2048, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
    "n_shared_experts": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "num_nextn_predict_layers": 1})";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("DeepSeek-V3 and what is made like it", "[model]") {
  const std::string start = R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": ")";
  const Model model = imported(start + "deepseek_v3\", " + deepseek_v3);
  REQUIRE(model.parameters() == 671'026'404'352);
  REQUIRE(model.family == "deepseek_v3");
  REQUIRE(model.attention.head_dim == 192);
  REQUIRE(model.attention.value_dim == 128);
  REQUIRE(imported(start + "kimi_k2\", " + deepseek_v3).parameters() == model.parameters());
  REQUIRE(imported(R"({"model_type": "kimi_k2", )" + deepseek_v3).family == "kimi_k2");
  REQUIRE(first_problem(start + "deepseek_v2\", " + deepseek_v3) ==
          "model_type \"deepseek_v2\" contradicts architecture DeepseekV3ForCausalLM, whose "
          "model_type is \"deepseek_v3\"");
}

// DeepSeek-V2-Lite: 15.7 billion parameters (arXiv:2405.04434, appendix B), no rank of queries.
TEST_CASE("null says that there is no rank of queries, or no shared expert", "[model]") {
  const std::string lite = R"({"model_type": "deepseek_v2", "hidden_size": 2048,
      "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
      "intermediate_size": 10944, "vocab_size": 102400, "moe_intermediate_size": 1408,
      "n_routed_experts": 64, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
      "n_shared_experts": 2, "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "v_head_dim": 128})";
  const Model model = imported(lite);
  REQUIRE(model.parameters() == 15'706'484'224);
  REQUIRE(model.shape->latent.query_rank == 0);
  REQUIRE(model.shape->experts.shared_feed_forward == 2'816);
  // Gate, up and down of two experts in 26 layers.
  REQUIRE(
      imported(with(lite, "\"n_shared_experts\": 2", "\"n_shared_experts\": null")).parameters() ==
      model.parameters() - 26LL * 3 * 2'048 * 2'816);
  REQUIRE(starts_with(first_problem(with(lite, "\"q_lora_rank\": null,", "")),
                      "missing key 'q_lora_rank'"));
  REQUIRE(starts_with(first_problem(with(lite, "\"n_shared_experts\": 2,", "")),
                      "missing key 'n_shared_experts'"));
  REQUIRE(first_problem(with(lite, "_heads\": 16, \"num_key", "_heads\": 32, \"num_key")) ==
          "16 key/value heads; allowed with latent attention: 32, as heads");
  REQUIRE(
      first_problem(with(lite, "\"q_lora_rank\"", "\"attention_bias\": true, \"q_lora_rank\"")) ==
      "attention_bias without q_lora_rank is not supported");
  REQUIRE(first_problem(with(lite, "\"q_lora_rank\"", "\"mlp_bias\": true, \"q_lora_rank\"")) ==
          "biases of an MLP beside experts are not supported");
  REQUIRE(first_problem(with(lite, "per_tok\": 6", "per_tok\": 65")) ==
          "65 experts for each token; there are 64");
  // Counted from layer 0, also behind the dense ones.
  const Experts spread = imported(with(lite, "\"first_k_dense_replace\": 1",
                                       "\"first_k_dense_replace\": 1, \"moe_layer_freq\": 3"))
                             .shape->experts;
  REQUIRE(spread.first_layer == 3);
  REQUIRE(spread.every == 3);
}

TEST_CASE("other mixtures of experts are refused by name, with what they have", "[model]") {
  const std::string name = GENERATE("zamba2", "granitemoe", "jamba", "mllama", "deepseek_v4",
                                    "kimi_k3", "kimi_linear", "minimax_m3", "gemma4_text");
  const std::string problem = first_problem(R"({"model_type": ")" + name + "\"}");
  CAPTURE(problem);
  REQUIRE(starts_with(problem, "\"" + name + "\" is not supported yet: it has "));
  REQUIRE(problem.find("mixtures of experts that are: mixtral, qwen3_moe, qwen2_moe, "
                       "qwen3_next, qwen3_5_moe_text, qwen3_5_moe, glm4_moe") != std::string::npos);
  REQUIRE(
      starts_with(first_problem(R"({"architectures": ["Zamba2ForCausalLM"], "hidden_size": 64})"),
                  "\"Zamba2ForCausalLM\" is not supported yet"));
}

TEST_CASE("experts hidden behind a known name are refused", "[model]") {
  REQUIRE(starts_with(first_problem(small_llama(R"(, "num_local_experts": 8)")),
                      "\"LlamaForCausalLM\" with experts is not supported yet"));
}

TEST_CASE("what stands in a wrapper's text_config is looked into", "[model]") {
  REQUIRE(starts_with(
      first_problem(R"({"model_type": "other", "text_config": {"model_type": "gemma4_text"}})"),
      "\"gemma4_text\" is not supported yet"));
  REQUIRE(starts_with(first_problem(R"({"model_type": "other", "text_config": {}})"),
                      "text_config names neither \"model_type\" nor \"architectures\""));
}

TEST_CASE("an unknown architecture is refused with the nearest and the file to write", "[model]") {
  const std::string problem = first_problem(R"({"model_type": "qwen4", "hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
      "vocab_size": 1000, "rms_norm_eps": 1e-6, "rope_theta": 10000, "hidden_act": "silu",
      "sliding_window": null, "tie_word_embeddings": true})");
  CAPTURE(problem);
  REQUIRE(starts_with(problem, "unknown architecture \"qwen4\"; did you mean \"qwen"));
  const std::size_t file = problem.find("name: ");
  REQUIRE(file != std::string::npos);
  const Model model = read_model(Document::parse_yaml(problem.substr(file), "written.yaml"));
  REQUIRE(model.parameters() == 64'000 + 2 * (64 * 192 + 4'096 + 24'576 + 128) + 64);
  REQUIRE(first_problem(R"({"model_type": "t5", "d_model": 512})")
              .find("  layers: ?  # not in the "
                    "file\n  hidden: 512\n") != std::string::npos);
  REQUIRE(first_problem(R"({"model_type": "bert", "architectures": ["LlamaForCausalLM"]})") ==
          "model_type \"bert\" contradicts architecture LlamaForCausalLM, whose model_type is "
          "\"llama\"");
}

TEST_CASE("an architecture of the wrong type is the error shown", "[model]") {
  const std::string problem = first_problem(R"({"architectures": "LlamaForCausalLM"})");
  CAPTURE(problem);
  REQUIRE(!starts_with(problem, "unknown architecture"));
}

TEST_CASE("sizes that contradict each other are refused", "[model]") {
  REQUIRE(first_problem(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 3, "intermediate_size": 128,
      "vocab_size": 1000})") == "3 key/value heads do not divide 4 heads");
  REQUIRE(first_problem(R"({"model_type": "llama", "hidden_size": 65, "num_hidden_layers": 2,
      "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 1000})") ==
          "4 heads do not make heads of equal width, at most 4096, of hidden size 65, and no "
          "head_dim is given");
}
