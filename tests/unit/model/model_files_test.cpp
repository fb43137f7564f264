// The two formats of our own, and how a file is recognised.
#include <fstream>
#include <iterator>

#include "sim/config/reader.hpp"
#include "sim/model/model.hpp"
#include "sim/model/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

// The YAML examples of models/FORMAT.md, in their order.
std::vector<std::string> documented_examples() {
  std::ifstream file{sim::test::source_dir() + "/models/FORMAT.md"};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  const std::string opening = "```yaml\n";
  std::vector<std::string> examples;
  for (std::size_t at = text.find(opening); at != std::string::npos;
       at = text.find(opening, at + 1)) {
    const std::size_t begin = at + opening.size();
    examples.push_back(text.substr(begin, text.find("```", begin) - begin));
  }
  return examples;
}

Model from_yaml(const std::string& text) {
  return read_model(Document::parse_yaml(text, "m.yaml"));
}

const std::string small = R"(name: small
source: made for this test
transformer:
  layers: 2
  hidden: 64
  heads: 4
  feed_forward: 256
  vocabulary: 1000
  norm: layer
  activation: gelu
  positions: learned
  max_sequence: 32
  biases: all
  tied_head: true
)";

std::string with(const std::string& from, const std::string& to) {
  std::string text = small;
  text.replace(text.find(from), from.size(), to);
  return text;
}

// Every problem of the text as "line:column what".
std::vector<std::string> problems(const std::string& text) {
  std::vector<std::string> found;
  try {
    from_yaml(text);
  } catch (const InputError& error) {
    for (const Problem& problem : error.problems())
      found.push_back(std::to_string(problem.where.line) + ":" +
                      std::to_string(problem.where.column) + " " + problem.what);
  }
  return found;
}

std::string problem(const std::string& text) {
  const std::vector<std::string> found = problems(text);
  return found.empty() ? "no error" : found.front();
}

const std::string two_layers = R"(name: list
source: made for this test
layer_list:
  input_elements: 100
  layers:
    - {name: a, parameters: 10, forward_flops: 2 MFLOP, activation_elements: 50,
       output_elements: 40}
    - name: b
      output_elements: 5
      operators:
        - {name: c, parameters: 7, forward_flops: 1 MFLOP, backward_flops: 1 MFLOP,
           activation_bytes: 16 B, forward_elements: 3, backward_elements: 4}
)";

}  // namespace

TEST_CASE("a transformer description becomes a model", "[model]") {
  const Model model = from_yaml(small);
  REQUIRE(model.name == "small");
  REQUIRE(model.source == "made for this test");
  REQUIRE(model.family == "transformer");
  REQUIRE(model.layers.size() == 2);
  REQUIRE(model.attention.head_dim == 16);
  REQUIRE(model.attention.causal);
  // Tables 1000 and 32 rows; a layer has 12 h^2 + 13 h parameters; the final norm 2 h.
  REQUIRE(model.parameters() == 1'032 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64);
}

TEST_CASE("a description that contradicts itself is refused", "[model]") {
  REQUIRE(problem(with("heads: 4", "heads: 5")) ==
          "6:10 heads is 5, which does not divide hidden 64; give head_dim if that is meant");
  REQUIRE(problem(with("heads: 4", "heads: 4\n  kv_heads: 3")) ==
          "7:13 kv_heads is 3, which does not divide 4 heads");
  REQUIRE(problem(with("tied_head: true", "head: none\n  tied_head: true")) ==
          "15:14 there is no head over the vocabulary that could be tied");
  REQUIRE(problem(with("tied_head: true", "classes: 10")) ==
          "14:12 \"classes\" goes with \"head: classifier\" only");
  // Also that an image excludes vocabulary and max_sequence.
  const std::vector<std::string> image =
      problems(with("tied_head: true", "head: none\n  image: {size: 224, patch: 15}"));
  REQUIRE(image.size() == 3);
  REQUIRE(image[2] == "15:29 patch is 15, which does not divide the image's size 224");
}

TEST_CASE("experts that contradict the model are refused", "[model]") {
  const auto experts = [](const std::string& text) {
    return problem(with("heads: 4", "heads: 4\n  experts: {" + text + "}"));
  };
  REQUIRE(experts("count: 8, per_token: 2, feed_forward: 128") == "no error");
  REQUIRE(experts("count: 1, per_token: 1, feed_forward: 128") ==
          "7:20 count is 1; allowed: 2 to 65536");
  REQUIRE(experts("count: 8, per_token: 9, feed_forward: 128") ==
          "7:34 9 experts for each token; there are 8");
  REQUIRE(experts("count: 8, per_token: 2, feed_forward: 128, first_layer: 2") ==
          "7:69 first_layer is 2; the last of 2 layers is 1");
  REQUIRE(experts("count: 8, per_token: 2, feed_forward: 128, evry: 2") ==
          "7:56 unknown key 'evry'; did you mean 'every'?");
  REQUIRE(experts("count: 8, per_token: 2").find("feed_forward") != std::string::npos);
  std::string large = with("heads: 4",
                           "heads: 4\n  experts: {count: 65536, per_token: 2, "
                           "feed_forward: 10000000}");
  large.replace(large.find("hidden: 64"), 10, "hidden: 1000000\n  head_dim: 64");
  REQUIRE(problem(large) == "8:38 the experts have 3.9e+18 parameters; allowed: up to 1e+18");
}

TEST_CASE("latent attention that contradicts the model is refused", "[model]") {
  const std::string sizes = "key_value_rank: 32, plain_dim: 16, rotary_dim: 8, value_dim: 16";
  const auto latent = [&](const std::string& more, const std::string& text) {
    std::string yaml = with("heads: 4", "heads: 4\n  latent_attention: {" + text + "}" + more);
    return problem(yaml.replace(yaml.find("learned"), 7, "rotary"));
  };
  REQUIRE(latent("", sizes) == "no error");
  REQUIRE(latent("", sizes + ", query_rank: 48") == "no error");
  REQUIRE(latent("\n  kv_heads: 2", sizes) ==
          "8:13 \"kv_heads\" does not go with \"latent_attention\", from which it follows");
  REQUIRE(latent("\n  head_dim: 16", sizes) ==
          "8:13 \"head_dim\" does not go with \"latent_attention\", from which it follows");
  REQUIRE(latent("\n  qk_norm: true", sizes) ==
          "8:12 qk_norm does not go with latent_attention, which has norms of its own");
  REQUIRE(latent("", "key_value_rank: 0, plain_dim: 16, rotary_dim: 8, value_dim: 16") ==
          "7:38 key_value_rank is 0; allowed: 1 to 1000000");
  REQUIRE(problem(with("heads: 4", "heads: 4\n  latent_attention: {" + sizes + "}")) ==
          "12:14 positions is learned; allowed with latent_attention: rotary");
}

TEST_CASE("what is written of experts and latent attention is read back", "[model]") {
  TransformerShape shape;
  shape.name = "written";
  shape.source = "made for this test";
  shape.family = "some";
  shape.layers = 6;
  shape.hidden = 64;
  shape.heads = shape.kv_heads = 4;
  shape.latent = {
      .query_rank = 48, .key_value_rank = 32, .plain_dim = 16, .rotary_dim = 8, .value_dim = 12};
  shape.head_dim = 24;
  shape.feed_forward = 256;
  shape.vocabulary = 1'000;
  shape.positions = Positions::rotary;
  shape.experts = {.count = 8,
                   .per_token = 3,
                   .feed_forward = 96,
                   .shared_feed_forward = 40,
                   .first_layer = 2,
                   .every = 3};
  REQUIRE(from_yaml(transformer_yaml(shape, 0)).shape == shape);
  shape.latent.query_rank = 0;
  shape.experts = {};
  REQUIRE(from_yaml(transformer_yaml(shape, 0)).shape == shape);
}

TEST_CASE("unknown keys and missing keys of a description are refused", "[model]") {
  REQUIRE(problem(with("layers: 2", "layer: 2")) ==
          "4:3 unknown key 'layer'; did you mean 'layers'?");
  REQUIRE(!problems(with("max_sequence: 32", "")).empty());
  REQUIRE(!problems(with("norm: layer", "norm: lyer")).empty());
  REQUIRE(!problems(with("hidden: 64", "hidden: 0")).empty());
  REQUIRE(!problems(with("layers: 2", "layers: 99999999")).empty());
}

TEST_CASE("a layer list becomes a model of generic operators", "[model]") {
  const Model model = from_yaml(two_layers);
  REQUIRE(model.is_layer_list);
  REQUIRE(model.layers.size() == 2);
  REQUIRE(model.parameters() == 17);
  const ModelOp& a = model.layers[0].ops[0];
  REQUIRE(a.kind == ModelOpKind::generic);
  REQUIRE(a.forward_flops == Flops{2e6});
  REQUIRE(a.backward_flops == Flops{4e6});
  REQUIRE(a.saved_elements == 50);
  // Reads 100, writes 40; backward reads 100 and 40, writes 100.
  REQUIRE(a.forward_elements == 140);
  REQUIRE(a.backward_elements == 240);
  const ModelOp& c = model.layers[1].ops[0];
  REQUIRE(c.backward_flops == Flops{1e6});
  REQUIRE(c.saved_fixed_bytes == 16);
  REQUIRE(c.backward_elements == 4);
  REQUIRE(model.layers[1].output_elements == 5);
}

TEST_CASE("a layer must say what it keeps", "[model]") {
  std::string text = two_layers;
  const std::string key = "activation_elements: 50,";
  text.replace(text.find(key), key.size(), "");
  REQUIRE(problem(text) ==
          "6:7 missing \"activation_elements\" (kept for the backward pass, in elements of the "
          "activation dtype) or \"activation_bytes\"");
}

TEST_CASE("a file that is no model is refused", "[model]") {
  REQUIRE_THROWS_AS(from_yaml("source: x\n"), InputError);
  REQUIRE_THROWS_AS(from_yaml(small + "layer_list: {}\n"), InputError);
  REQUIRE_THROWS_AS(load_model("no/such/file.yaml"), InputError);
  REQUIRE(problem("source: x\n") ==
          "1:1 not a model: expected one of \"transformer\" or \"layer_list\" (a model of ours), "
          "or \"model_type\" or \"architectures\" (a Hugging Face config.json)");
}

TEST_CASE("layers that differ are listed or counted, and contradictions refused", "[model]") {
  const std::string rotary = with("positions: learned\n", "positions: rotary\n");
  const auto set = [&](const std::string& lines) { return problem(rotary + lines); };
  REQUIRE(from_yaml(rotary + "  window: 8\n  full_attention: [1]\n").shape->window_of(1) == 0);
  REQUIRE(from_yaml(rotary + "  without_positions: {every: 2}\n").shape->without_positions ==
          LayerSet{{1}});
  REQUIRE(set("  full_attention: [1]\n") ==
          "15:19 \"full_attention\" goes with \"window\", which is absent");
  REQUIRE(set("  window: 8\n  full_attention: [2]\n") ==
          "16:20 full_attention[0] is 2; allowed: 0 to 1");
  REQUIRE(set("  window: 8\n  full_attention: [1, 1]\n") == "16:19 names a layer twice");
  REQUIRE(set("  window: 8\n  attention: bidirectional\n") ==
          "15:11 a window goes with attention causal only");
  REQUIRE(set("  qk_norm_over: projection\n") ==
          "15:17 \"qk_norm_over\" goes with \"qk_norm: true\"");
  REQUIRE(problem(small + "  rotary_share: 0.5\n") ==
          "15:17 \"rotary_share\" goes with \"positions: rotary\" only");
  REQUIRE(set("  rotary_share: 0\n") == "15:17 rotary_share is 0; allowed: 0.01 to 1");
  REQUIRE(problem(with("tied_head: true", "head: none") + "  logit_scale: true\n") ==
          "15:16 \"logit_scale\" goes with \"head: language_model\" only");
}

TEST_CASE("the formats are as models/FORMAT.md shows them", "[model]") {
  const std::vector<std::string> examples = documented_examples();
  REQUIRE(examples.size() == 8);
  // Llama 3.1 8B, but for the two token types.
  REQUIRE(from_yaml(examples[0]).parameters() == 8'030'261'248 + 2 * 4'096);
  const TransformerShape varied = *from_yaml(examples[1]).shape;
  REQUIRE(varied.full_attention.layers == std::vector<std::int64_t>{5, 11, 17, 23});
  REQUIRE(varied.without_positions.layers == std::vector<std::int64_t>{3, 7});
  REQUIRE(varied.window_of(5) == 0);
  REQUIRE(varied.window_of(6) == 4'096);
  const std::string hybrid =
      "source: x\ntransformer:\n  layers: 4\n  hidden: 4096\n  heads: 32\n  kv_heads: 8\n"
      "  feed_forward: 21504\n  vocabulary: 131072\n  norm: rms\n  activation: squared_relu\n"
      "  positions: none\n  biases: none\n";
  // Layers of Nemotron-H-8B.
  REQUIRE(from_yaml(hybrid + examples[2]).parameters() ==
          2 * 109'640'064 + 176'164'864 + 41'947'136 + 2 * 131'072 * 4'096 + 4'096);
  const Hybrid nets = from_yaml(hybrid + examples[3]).shape->hybrid;
  REQUIRE(nets.layers[2] == LayerKind{.mixer = Mixer::gated_delta_net, .width = 7'168});
  REQUIRE(nets.layers[3] == LayerKind{.kv_heads = 2});
  const std::string image =
      "source: x\ntransformer:\n  layers: 12\n  hidden: 768\n  heads: 12\n"
      "  feed_forward: 3072\n  norm: layer\n  activation: gelu\n"
      "  positions: learned\n  biases: all\n";
  REQUIRE(from_yaml(image + examples[4]).parameters() == 86'567'656);
  // Qwen2.5-VL 7B, but for the table of positions.
  const std::string qwen2_5 =
      "source: x\ntransformer:\n  layers: 28\n  hidden: 3584\n  heads: 28\n  kv_heads: 4\n"
      "  feed_forward: 18944\n  vocabulary: 152064\n  norm: rms\n  activation: swiglu\n"
      "  positions: rotary\n  biases: qkv\n";
  REQUIRE(from_yaml(qwen2_5 + examples[5]).parameters() == 8'292'166'656 + 2'304 * 1'280);
  const std::string deepseek_v3 =
      "source: x\ntransformer:\n  layers: 61\n  hidden: 7168\n  heads: 128\n"
      "  feed_forward: 18432\n  vocabulary: 129280\n  norm: rms\n  activation: swiglu\n"
      "  positions: rotary\n  biases: none\n";
  REQUIRE(from_yaml(deepseek_v3 + examples[6]).parameters() == 671'026'404'352);
  const Model list = from_yaml(examples[7]);
  REQUIRE(list.parameters() == 18'536);
  // The values that the example says are the defaults.
  REQUIRE(list.layers[0].ops[0].backward_flops == list.layers[0].ops[0].forward_flops * 2);
  REQUIRE(list.layers[0].ops[0].forward_elements == 150'528 + 802'816);
  REQUIRE(list.layers[0].ops[0].backward_elements == 2 * 150'528 + 802'816);
}
