// Saved activations against Korthikanti et al. 2022 (arXiv:2205.05198), in bytes per token at 16
// bit with h hidden, a heads, s tokens, t tensor-parallel ranks.
#include "shapes.hpp"
#include "sim/model/dropout.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

constexpr int two_bytes = 2;

double per_rank(const SavedBytes& saved, int t, bool sequence_parallel) {
  return saved.inner / t + saved.sequence / (sequence_parallel ? t : 1);
}

double total_elements(const Block& block) {
  double sum = 0;
  for (const ModelOp& op : block.ops)
    sum += op.saved_elements + op.saved_input_elements;
  return sum;
}

const ModelOp& op_named(const Block& block, const std::string& name) {
  for (const ModelOp& op : block.ops)
    if (op.name == name) return op;
  throw std::out_of_range(name);
}

}  // namespace

TEST_CASE("the classic layer saves what Korthikanti's equations 1, 2 and 4 say", "[model]") {
  const auto [h, a, s] = GENERATE(std::array<std::int64_t, 3>{12'288, 96, 2'048},
                                  std::array<std::int64_t, 3>{6'144, 64, 2'048},
                                  std::array<std::int64_t, 3>{768, 12, 1'024});
  const TransformerShape shape = classic_gpt(1, h, a, 51'200, s);
  const Model model = build_transformer(shape);
  const SavedBytes saved = saved_bytes(model.layers[0], model.attention, false, s, two_bytes);
  const auto hidden = static_cast<double>(h);
  const auto scores = static_cast<double>(a * s);
  for (const int t : {1, 2, 4}) {
    CAPTURE(h, a, s, t);
    // Equation 2: s b h (10 + 24/t + 5 a s / (h t)); equation 1 is t = 1.
    REQUIRE(per_rank(saved, t, false) == 10 * hidden + 24 * hidden / t + 5 * scores / t);
    // Equation 4: s b h / t (34 + 5 a s / h).
    REQUIRE(per_rank(saved, t, true) == (34 * hidden + 5 * scores) / t);
  }
}

TEST_CASE("flash attention drops the square term and keeps a log-sum-exp per head", "[model]") {
  const Model model = build_transformer(classic_gpt(1, 12'288, 96, 51'200, 2'048));
  const SavedBytes saved = saved_bytes(model.layers[0], model.attention, true, 2'048, two_bytes);
  REQUIRE(saved.sequence == 10 * 12'288);
  REQUIRE(saved.inner == 24 * 12'288 + 4 * 96);
}

TEST_CASE("without attention dropout only the softmax output is kept", "[model]") {
  TransformerShape shape = classic_gpt(1, 768, 12, 50'257, 1'024);
  shape.attention_dropout = 0;
  const Model model = build_transformer(shape);
  REQUIRE(attention_kernel_saved_bytes(model.attention, false, 1'024, 2) == 2.0 * 12 * 1'024);
  REQUIRE(attention_kernel_saved_bytes(model.attention, false, 1'024, 4) == 4.0 * 12 * 1'024);
}

TEST_CASE("post-norm layers save as much as pre-norm layers", "[model]") {
  TransformerShape shape = classic_gpt(1, 768, 12, 30'522, 512);
  const Model pre = build_transformer(shape);
  shape.norm_placement = NormPlacement::post;
  const Model post = build_transformer(shape);
  const SavedBytes a = saved_bytes(pre.layers[0], pre.attention, true, 512, two_bytes);
  const SavedBytes b = saved_bytes(post.layers[0], post.attention, true, 512, two_bytes);
  REQUIRE(a.sequence == b.sequence);
  REQUIRE(a.inner == b.inner);
}

TEST_CASE("a Llama layer saves norms, Q, K, V, projection input, gate, up and their product",
          "[model]") {
  // Llama 3.1 8B: h = 4096, 32 heads and 8 key/value heads of 128, f = 14336. Elements per token:
  // 2 h norms, h + h inputs of qkv and mlp_up, h + 2 * 1024 Q, K, V, h projection input, 2 f gate
  // and up, f product = 6 h + 2048 + 3 f.
  const Block layer = transformer_layer(llama(1, 4'096, 32, 8, 14'336));
  REQUIRE(total_elements(layer) == 6 * 4'096 + 2'048 + 3 * 14'336);
  for (const ModelOp& op : layer.ops)
    REQUIRE(op.saved_fixed_bytes == 0);
}

TEST_CASE("the ends save the embedding's mask, the last norm, the head's input and fp32 logits",
          "[model]") {
  // Section 4.3: s b h for the embedding's dropout; 2 s b h + 2 s b h + 4 s b v / t at the end.
  const Model model = build_transformer(classic_gpt(1, 12'288, 96, 51'200, 2'048));
  const SavedBytes input = saved_bytes(model.input, model.attention, true, 2'048, two_bytes);
  REQUIRE(input.sequence == 12'288);
  REQUIRE(input.inner == 0);
  const SavedBytes output = saved_bytes(model.output, model.attention, true, 2'048, two_bytes);
  REQUIRE(output.sequence == 4 * 12'288);
  REQUIRE(output.inner == 4 * 51'200);
}

TEST_CASE("operators of a classic layer stand in forward order", "[model]") {
  const Block layer = transformer_layer(classic_gpt(1, 768, 12, 50'257, 1'024));
  std::vector<std::string> names;
  for (const ModelOp& op : layer.ops)
    names.push_back(op.name);
  REQUIRE(names == std::vector<std::string>{"input_norm", "qkv", "attention",
                                            "attention_projection", "attention_residual",
                                            "post_attention_norm", "mlp_up", "activation",
                                            "mlp_down", "mlp_residual"});
}

TEST_CASE("q/k norms and rotary embedding stand between qkv and attention", "[model]") {
  TransformerShape shape = llama(1, 4'096, 32, 8, 12'288);
  shape.qk_norm = true;
  const Block layer = transformer_layer(shape);
  std::vector<std::string> names;
  for (const ModelOp& op : layer.ops)
    names.push_back(op.name);
  REQUIRE(std::vector<std::string>(names.begin() + 1, names.begin() + 5) ==
          std::vector<std::string>{"qkv", "qk_norm", "rotary", "attention"});
  // One scale of head_dim for Q, one for K; whole on every tensor-parallel rank.
  REQUIRE(op_named(layer, "qk_norm").biases == 2 * 128);
  REQUIRE(op_named(layer, "qk_norm").split == TensorSplit::inner);
  // Reads, keeps the raw ones, writes in place: 32 query and 8 key heads of 128.
  REQUIRE(op_named(layer, "qk_norm").forward_elements == 3 * 40 * 128);
  REQUIRE(op_named(layer, "qk_norm").in_place);
  REQUIRE(op_named(layer, "rotary").in_place);
}

TEST_CASE("memory traffic counts each fused kernel's reads and writes", "[model]") {
  const double h = 4'096;
  const double f = 14'336;
  const Block layer = transformer_layer(llama(1, 4'096, 32, 8, 14'336));
  // RMSNorm 2 h; backward 3 h, and 3 h for the sum with the residual's gradient.
  REQUIRE(op_named(layer, "input_norm").forward_elements == 2 * h);
  REQUIRE(op_named(layer, "input_norm").backward_elements == 6 * h);
  // SwiGLU: reads gate and up, writes f; backward reads f and 2 f, writes 2 f.
  REQUIRE(op_named(layer, "activation").forward_elements == 3 * f);
  REQUIRE(op_named(layer, "activation").backward_elements == 5 * f);
  // A residual sum without dropout hands its gradient on: no kernel in the backward pass.
  REQUIRE(op_named(layer, "mlp_residual").forward_elements == 3 * h);
  REQUIRE(op_named(layer, "mlp_residual").backward_elements == 0);
  const Block classic = transformer_layer(classic_gpt(1, 768, 12, 50'257, 1'024));
  REQUIRE(op_named(classic, "mlp_residual").forward_elements == 3.5 * 768);
  REQUIRE(op_named(classic, "mlp_residual").backward_elements == 2.5 * 768);
  REQUIRE(op_named(classic, "qkv").backward_elements == 3 * 768);  // gradient of the bias
}

TEST_CASE("operators say what they compute, or that they can be forecast only", "[model]") {
  TransformerShape shape = llama(1, 4'096, 32, 8, 12'288);
  shape.qk_norm = true;
  const Block layer = transformer_layer(shape);
  std::vector<Function> functions;
  for (const ModelOp& op : layer.ops)
    functions.push_back(op.function);
  using enum Function;
  REQUIRE(functions == std::vector<Function>{rms_norm, linear, rms_norm, rotary, attention, linear,
                                             add_residual, rms_norm, linear, swiglu, linear,
                                             add_residual});
  // With dropout, in a residual sum or on the probabilities, they are what they are without.
  TransformerShape plain = classic_gpt(1, 768, 12, 50'257, 1'024);
  const Block classic = transformer_layer(plain);
  REQUIRE(op_named(classic, "attention").function == attention);
  REQUIRE(op_named(classic, "mlp_residual").function == add_residual);
  REQUIRE(op_named(classic, "activation").function == gelu);
  plain.positions = Positions::alibi;
  REQUIRE(op_named(transformer_layer(plain), "attention").function == none);
}

TEST_CASE("an operator drops with the probability of its place", "[model]") {
  TransformerShape shape = classic_gpt(1, 768, 12, 50'257, 1'024);
  shape.embedding_dropout = 0.1;
  shape.attention_dropout = 0.2;
  shape.projection_dropout = 0.3;
  shape.mlp_dropout = 0.4;
  for (const NormPlacement placement : {NormPlacement::pre, NormPlacement::post}) {
    shape.norm_placement = placement;
    const Model model = build_transformer(shape);
    const auto of = [&](const Block& block, const char* name) {
      return dropout_of(model, op_named(block, name));
    };
    REQUIRE(of(model.input, "embedding_dropout") == 0.1);
    REQUIRE(of(model.input, "positions") == 0);
    REQUIRE(of(model.layers[0], "attention") == 0.2);
    REQUIRE(of(model.layers[0], "attention_residual") == 0.3);
    REQUIRE(of(model.layers[0], "mlp_residual") == 0.4);
    REQUIRE(of(model.layers[0], "activation") == 0);
  }
}

TEST_CASE("the engine executes a head of classes over text, not over an image", "[model]") {
  TransformerShape shape = classic_gpt(1, 768, 12, 50'257, 1'024);
  shape.head = Head::classifier;
  shape.classes = 2;
  const Block text = output_block(shape);
  REQUIRE(op_named(text, "head").function == Function::linear);
  REQUIRE(op_named(text, "head").once_per_sequence);
  REQUIRE(op_named(text, "cross_entropy").function == Function::cross_entropy);
  shape.image = {.size = 32, .patch = 16};
  shape.vocabulary = 0;
  const Block image = output_block(shape);
  REQUIRE(op_named(image, "head").function == Function::none);
  REQUIRE(op_named(image, "cross_entropy").function == Function::none);
}

TEST_CASE("a residual sum names the operator that begins its branch", "[model]") {
  TransformerShape shape = classic_gpt(1, 768, 12, 50'257, 1'024);
  const Block pre = transformer_layer(shape);
  shape.norm_placement = NormPlacement::post;
  const Block post = transformer_layer(shape);
  const auto begins = [](const Block& block, const std::string& sum) {
    return block.ops[static_cast<std::size_t>(op_named(block, sum).residual_of)].name;
  };
  REQUIRE(begins(pre, "attention_residual") == "input_norm");
  REQUIRE(begins(pre, "mlp_residual") == "post_attention_norm");
  REQUIRE(begins(post, "attention_residual") == "qkv");
  REQUIRE(begins(post, "mlp_residual") == "mlp_up");
}
