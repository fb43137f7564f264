// Models whose layers differ: their files, their parameters, their FLOPs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shapes.hpp"
#include "sim/config/reader.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

Model of_config(const std::string& json) {
  return read_model(Document::parse_json(json, "some-model/config.json"));
}

Model of_yaml(const std::string& text) {
  return read_model(Document::parse_yaml(text, "model.yaml"));
}

std::string first_problem(const std::string& text) {
  try {
    of_yaml(text);
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "no error";
}

std::string yaml(const std::string& more, const std::string& layers = "4") {
  return fmt::format(
      "name: m\nsource: s\ntransformer:\n  layers: {}\n  hidden: 64\n  heads: 4\n"
      "  feed_forward: 128\n  vocabulary: 100\n  norm: rms\n  activation: swiglu\n"
      "  positions: none\n  biases: none\n{}",
      layers, more);
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* mamba = "  mamba2: {heads: 8, head_dim: 16, groups: 2, state: 32}\n";

constexpr const char* nemotron_h_8b = R"({"model_type": "nemotron_h",
    "architectures": ["NemotronHForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 52,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "num_attention_heads": 32, "num_key_value_heads": 8, "attention_head_dim": 128,
    "intermediate_size": 21504, "mlp_hidden_act": "relu2", "mamba_num_heads": 128,
    "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4,
    "chunk_size": 128, "use_bias": false, "vocab_size": 131072})";

}  // namespace

// Nemotron-H-8B: 8,100,852,736 in the checkpoint. Nemotron 3 Nano: 31,577,940,288 there, of which
// 23 x 128 are the correction biases of its routers. Codestral Mamba: 7,285,403,648
// (mistral.ai/news/codestral-mamba). Qwen3-Next without multi-token prediction: 79,674,391,296, as
// Qwen3-Coder-Next, which has none. Qwen1.5-MoE-A2.7B: 14,315,784,192.
TEST_CASE("released hybrid models have their parameters to the last one", "[model]") {
  struct Released {
    std::string json;
    std::int64_t parameters;
  };
  const Released released = GENERATE(
      Released{nemotron_h_8b, 8'100'852'736},
      Released{R"({"model_type": "nemotron_h", "hidden_size": 2688, "num_hidden_layers": 52,
          "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
          "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
          "intermediate_size": 1856, "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8,
          "ssm_state_size": 128, "n_routed_experts": 128, "num_experts_per_tok": 6,
          "moe_intermediate_size": 1856, "n_shared_experts": 1,
          "moe_shared_expert_intermediate_size": 3712, "n_group": 1, "topk_group": 1,
          "vocab_size": 131072})",
               31'577'940'288 - 23 * 128},
      Released{R"({"model_type": "mamba2", "architectures": ["Mamba2ForCausalLM"],
          "hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128, "head_dim": 64,
          "n_groups": 8, "state_size": 128, "conv_kernel": 4, "chunk_size": 256,
          "vocab_size": 32768, "tie_word_embeddings": false})",
               7'285'403'648},
      Released{R"({"model_type": "qwen3_next", "architectures": ["Qwen3NextForCausalLM"],
          "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16,
          "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 5120,
          "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
          "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
          "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
          "shared_expert_intermediate_size": 512, "decoder_sparse_step": 1, "mlp_only_layers": [],
          "partial_rotary_factor": 0.25, "vocab_size": 151936})",
               79'674'391'296},
      // Nemotron Nano 9B v2.
      Released{R"({"model_type": "nemotron_h", "hidden_size": 4480, "num_hidden_layers": 56,
          "hybrid_override_pattern": "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-",
          "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
          "intermediate_size": 15680, "mamba_num_heads": 128, "mamba_head_dim": 80,
          "n_groups": 8, "ssm_state_size": 128, "vocab_size": 131072})",
               8'888'227'328},
      // Granite 4.0 H Small; Bamba 9B, 9.78 billion.
      Released{R"({"model_type": "granitemoehybrid", "hidden_size": 4096, "num_hidden_layers": 40,
          "layer_types": [
          "mamba", "mamba", "mamba", "mamba", "mamba", "attention", "mamba", "mamba",
          "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "attention",
          "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba",
          "attention", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba", "mamba",
          "mamba", "mamba", "attention", "mamba", "mamba", "mamba", "mamba"],
          "num_attention_heads": 32,
          "num_key_value_heads": 8, "num_local_experts": 72, "num_experts_per_tok": 10,
          "shared_intermediate_size": 1536, "intermediate_size": 768, "mamba_n_heads": 128,
          "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128,
          "tie_word_embeddings": true, "vocab_size": 100352})",
               32'207'337'984},
      Released{R"({"model_type": "bamba", "hidden_size": 4096, "num_hidden_layers": 32,
          "attn_layer_indices": [9, 18, 27], "num_attention_heads": 32, "num_key_value_heads": 8,
          "intermediate_size": 14336, "mamba_n_heads": 128, "mamba_d_head": "auto",
          "mamba_n_groups": 1, "mamba_d_state": 128, "vocab_size": 128256})",
               9'780'235'392},
      Released{R"({"model_type": "qwen2_moe", "hidden_size": 2048, "num_hidden_layers": 24,
          "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 5632,
          "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
          "shared_expert_intermediate_size": 5632, "decoder_sparse_step": 1,
          "vocab_size": 151936})",
               14'315'784'192});
  CAPTURE(released.json);
  REQUIRE(of_config(released.json).parameters() == released.parameters);
}

TEST_CASE("DeepSeek-V3.2 is V3 and an indexer in every layer", "[model]") {
  const std::string v3 = R"("num_hidden_layers": 61, "hidden_size": 7168,
      "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
      "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "n_routed_experts": 256, "n_shared_experts": 1,
      "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
      "vocab_size": 129280)";
  const Model before = of_config(R"({"model_type": "deepseek_v3", )" + v3 + "}");
  const Model after = of_config(R"({"model_type": "deepseek_v32", "index_n_heads": 64,
      "index_head_dim": 128, "index_topk": 2048, )" +
                                v3 + "}");
  // wq_b, wk, k_norm and weights_proj of the Indexer in inference/model.py.
  const std::int64_t indexer = 1'536 * 64 * 128 + 7'168 * 128 + 2 * 128 + 7'168 * 64;
  CHECK(before.parameters() == 671'026'404'352);
  CHECK(after.parameters() == before.parameters() + 61 * indexer);
}

TEST_CASE("what neural architecture search left of Llama is read by its blocks", "[model]") {
  const auto block = [](const std::string& attention, const std::string& ffn) {
    return fmt::format(R"({{"attention": {{{}}}, "ffn": {{{}}}}})", attention, ffn);
  };
  const std::string head = R"({"model_type": "nemotron-nas", "hidden_size": 8192,
      "num_attention_heads": 64, "num_key_value_heads": null, "intermediate_size": null,
      "num_hidden_layers": 4, "vocab_size": 128256, "hidden_act": "silu", "block_configs": [)";
  const Model model = of_config(
      head + block(R"("n_heads_in_group": 8, "no_op": false)", R"("ffn_mult": 5.25)") + ", " +
      block(R"("no_op": true, "n_heads_in_group": null)", R"("ffn_mult": 1.3125)") + ", " +
      block(R"("replace_with_linear": true)", R"("no_op": true)") + ", " +
      block(R"("no_op": true)", R"("no_op": true)") + "]}");
  REQUIRE(model.layers.size() == 3);
  // int(2 x 5.25 x 8192 / 3) is 28672; int(2 x 1.3125 x 8192 / 3) is 7168.
  CHECK(model.layers[0].parameters() ==
        2 * 8'192 * 8'192 + 2 * 8'192 * 1'024 + 3 * 8'192 * 28'672 + 2 * 8'192);
  CHECK(model.layers[1].parameters() == 3 * 8'192 * 7'168 + 8'192);
  CHECK(model.layers[2].parameters() == 8'192 * 8'192 + 8'192);
  CHECK(says(model.notes.front(), "1 layers that do nothing"));
  CHECK(model.attention.kv_heads == 8);
}

TEST_CASE("Qwen3-Next's attention has a gate, and every shared expert", "[model]") {
  TransformerShape shape = llama(1, 64, 4, 2, 128);
  shape.attention_gate = true;
  const std::int64_t plain = transformer_layer(llama(1, 64, 4, 2, 128)).parameters();
  CHECK(transformer_layer(shape).parameters() == plain + 64 * 64);
  shape.experts = {.count = 4, .per_token = 2, .feed_forward = 32, .shared_feed_forward = 16};
  const std::int64_t without = build_transformer(shape).parameters();
  shape.experts.shared_gate = true;
  CHECK(build_transformer(shape).parameters() == without + 64);
}

TEST_CASE("a model file says layers by a pattern or by their kinds, and is written back",
          "[model]") {
  const std::string text = GENERATE_COPY(
      yaml(std::string{mamba} + "  layer_pattern: \"M-*-\"\n"),
      yaml(std::string{mamba} +
           "  layer_kinds: [{mixer: mamba2, feed_forward: mlp}, {mixer: attention, kv_heads: 2, "
           "feed_forward: mlp, width: 96}]\n"),
      yaml("  gated_delta_net: {key_heads: 2, value_heads: 4, key_dim: 8, value_dim: 16}\n"
           "  experts: {count: 4, per_token: 2, feed_forward: 32, shared_feed_forward: 16, "
           "shared_gate: true}\n  attention_gate: true\n  layer_kinds: [{count: 3, mixer: "
           "gated_delta_net, feed_forward: experts}, {feed_forward: mlp}]\n"),
      yaml("  layer_kinds: [{mixer: linear, feed_forward: none}, {mixer: none, feed_forward: "
           "linear}]\n"));
  const Model model = of_yaml(text);
  REQUIRE(model.shape);
  REQUIRE(model.layers.size() == 4);
  const Model again = of_yaml(transformer_yaml(*model.shape, 0));
  CHECK(again.shape == model.shape);
  CHECK(again == model);
}

TEST_CASE("a pattern of Mamba-2 alone needs neither heads nor an MLP", "[model]") {
  const Model model = of_yaml(
      "name: m\nsource: s\ntransformer:\n  layers: 2\n  hidden: 64\n  mamba2: {heads: 8, head_dim: "
      "16, groups: 2, state: 32}\n  layer_pattern: MM\n  vocabulary: 100\n  norm: rms\n  "
      "activation: relu\n  positions: none\n  biases: none\n");
  // in: 2 x 128 + 2 x 64 + 8; convolution 256 x 5; A, D and steps 3 x 8; norms 128 and 64.
  CHECK(model.layers.front().parameters() == 64 * 392 + 256 * 5 + 3 * 8 + 128 + 128 * 64 + 64);
}

TEST_CASE("what layers that differ get wrong is said by key", "[model]") {
  const auto problem = [](const std::string& more) { return first_problem(yaml(more)); };
  CHECK(says(problem("  layer_pattern: \"MX--\"\n"), "unknown letter 'X'"));
  CHECK(says(problem("  layer_pattern: \"*-\"\n"), "has 2 layers, \"layers\" is 4"));
  CHECK(says(problem("  layer_pattern: \"M-*-\"\n"), "\"mamba2\" is absent"));
  CHECK(says(problem(mamba), "no layer is one"));
  CHECK(says(problem("  layer_pattern: \"E-*-\"\n"), "\"experts\" is absent"));
  CHECK(says(problem("  mamba2: {heads: 8, groups: 3}\n  layer_pattern: \"M-*-\"\n"),
             "3 groups do not divide 8 heads"));
  CHECK(says(problem("  layer_kinds: [{mixer: none, feed_forward: none}]\n"), "leave it out"));
  CHECK(says(problem("  layer_kinds: [{kv_heads: 3}]\n"), "3 kv_heads do not divide"));
  CHECK(says(problem("  layer_kinds: [{count: 3}]\n"), "has 3 layers, of which 4"));
  CHECK(says(problem("  layer_pattern: \"*-*-\"\n  mtp_layers: 1\n"), "give \"mtp_pattern\""));
  CHECK(says(problem("  layer_pattern: \"*-*-\"\n  mtp_layers: 1\n  mtp_pattern: \"*E\"\n"),
             "whose sizes no other one gives"));
  CHECK(says(problem("  mtp_layers: 1\n  mtp_pattern: \"*-\"\n"), "goes with \"layer_pattern\""));
}

// Megatron-LM, training/training.py, hybrid_flops, where d_in is 2 h, as here: forward FLOPs of a
// sequence, its attention halved by the mask. Ours has the full square.
TEST_CASE("Nemotron-H has the FLOPs that Megatron-LM counts", "[model]") {
  const Model model = of_config(nemotron_h_8b);
  const double s = 8'192, h = 4'096, in = 8'192, state = 128, groups = 8, heads = 128;
  const double scan_layer =
      2 * s * h * (2 * in + 2 * groups * state + heads) + 7 * s * in * state + 2 * s * in * h;
  const double mlp = 4 * (21'504 / h) * s * h * h;
  const double attention = 4 * s * h * (h + h * 8 / 32) + 4 * s * s * h;
  const double logits = 2 * s * h * 131'072;
  const double all = 24 * scan_layer + 24 * mlp + 4 * attention + logits;
  CHECK(forward_flops(model, 8'192).count() == Approx(all).epsilon(1e-12));
}

TEST_CASE("ratios give the pattern that Megatron-LM makes of them", "[model]") {
  // pattern_from_ratios() of core/models/hybrid/hybrid_layer_allocation.py, as it runs.
  CHECK(pattern_from_ratios(12, 0, 0) == "MMMMMMMMMMMM");
  for (const auto& [layers, attention, mlp] :
       {std::tuple{24, 0.125, 0.0}, std::tuple{48, 0.08, 0.5}, std::tuple{10, 0.3, 0.3}}) {
    const std::string pattern = pattern_from_ratios(layers, attention, mlp);
    CAPTURE(pattern);
    CHECK(static_cast<int>(pattern.size()) == layers);
    CHECK(std::count(pattern.begin(), pattern.end(), '*') ==
          static_cast<std::ptrdiff_t>(std::nearbyint(layers * attention)));
    CHECK(std::count(pattern.begin(), pattern.end(), '-') ==
          static_cast<std::ptrdiff_t>(std::nearbyint(layers * mlp)));
  }
  CHECK(pattern_from_ratios(24, 0.125, 0.0) == "MMMMM*MMMMMM*MMMMM*MMMMM");
  CHECK(pattern_from_ratios(48, 0.08, 0.5) == "M-M-M--M-*M-M-M-M--*M-M-M-M-*M--M-M-M-*M-M--M-M-");
  CHECK(pattern_from_ratios(10, 0.3, 0.3) == "M-*MM*-*M-");
  CHECK(pattern_from_ratios(56, 0.08, 0.5) ==
        "M-M-M--M-M*-M-M-M-M--M*-M-M-M-M-M*--M-M-M-M-M*-M--M-M-M-");
  CHECK(pattern_from_ratios(8, 0.25, 0) == "MM*MM*MM");
}

// The output of the first product, of which the convolution is computed again, the scan's output
// with and without its gate, and the norm's, which the last product keeps; and the inputs of the
// layer's norm and of the first product.
TEST_CASE("a layer of Mamba-2 keeps what its kernels' backward passes read", "[model]") {
  TransformerShape shape = llama(1, 64, 4, 2, 128);
  shape.hybrid.mamba = {.heads = 8, .head_dim = 16, .groups = 2, .state = 32};
  const Block layer =
      transformer_layer(shape, {.mixer = Mixer::mamba2, .feed_forward = FeedForward::none});
  const SavedBytes saved = saved_bytes(layer, {}, true, 128, 2);
  CHECK(saved.sequence == 2 * (64 + 64));
  CHECK(saved.inner == 2 * ((2 * 128 + 2 * 2 * 32 + 8) + 3 * 128));
}

// The tables at the head of mamba2.cpp and of gated_delta_net.cpp, summed by hand.
TEST_CASE("the kernels of scans compute what their tables say", "[model]") {
  TransformerShape shape = llama(1, 64, 4, 2, 128);
  shape.hybrid.mamba = {.heads = 8, .head_dim = 16, .groups = 2, .state = 32, .chunk = 64};
  shape.hybrid.delta_net = {.key_heads = 2, .value_heads = 4, .key_dim = 8, .value_dim = 16};
  const auto scan = [&](Mixer mixer) {
    const Block layer =
        transformer_layer(shape, {.mixer = mixer, .feed_forward = FeedForward::none});
    return *std::find_if(layer.ops.begin(), layer.ops.end(),
                         [](const ModelOp& op) { return op.kind == ModelOpKind::scan; });
  };
  const ModelOp mamba = scan(Mixer::mamba2);
  const double states = 2 * 8 * 16 * 32, triangle = 8 * 16 * 64, groups = 2 * 2 * 64 * 32;
  CHECK(mamba.forward_flops.count() == 2 * states + triangle + groups);
  CHECK(mamba.backward_flops.count() == 5 * states + 3 * triangle + 3 * groups);
  CHECK(mamba.model_flops.count() == 7 * 8 * 16 * 32);
  const ModelOp net = scan(Mixer::gated_delta_net);
  const double keys = 64 * 8, values = 64 * 16, square = 64 * 64, state = 8 * 16;
  CHECK(net.forward_flops.count() == 4 * (6 * keys + 4 * values + 6 * state + square));
  CHECK(net.backward_flops.count() == 4 * (18 * keys + 10 * values + 16 * state + 4 * square));
  CHECK(net.model_flops.count() == 4 * 8 * 16 * 16);
}

// A chunk of twice the tokens writes half as many states of chunks.
TEST_CASE("longer chunks move fewer states and compute more scores", "[model]") {
  TransformerShape shape = llama(1, 64, 4, 2, 128);
  const auto scan = [&](std::int64_t chunk) {
    shape.hybrid.mamba = {.heads = 64, .head_dim = 64, .groups = 1, .state = 128, .chunk = chunk};
    return transformer_layer(shape, {.mixer = Mixer::mamba2, .feed_forward = FeedForward::none})
        .ops[3];
  };
  REQUIRE(scan(64).name == "mamba_scan");
  CHECK(scan(128).forward_elements < scan(64).forward_elements);
  CHECK(scan(128).backward_elements < scan(64).backward_elements);
  CHECK(scan(128).forward_flops > scan(64).forward_flops);
}
