// Diffusion transformers of two streams.
#include <string>

#include "sim/config/reader.hpp"
#include "sim/model/model.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

Model shipped_diffusion(const std::string& name) {
  return load_model(test::source_dir() + "/models/" + name + ".yaml");
}

const std::string small_diffusion = R"(source: made up
diffusion_transformer:
  double_layers: 1
  single_layers: 2
  hidden: 64
  heads: 4
  feed_forward: 256
  image: {size: 64, patch: 16, channels: 8}
  text: {tokens: 16, width: 32}
  vector: 24
  timestep: 16
)";

std::string problem_of_diffusion(std::string yaml, const std::string& old,
                                 const std::string& now) {
  yaml.replace(yaml.find(old), old.size(), now);
  try {
    static_cast<void>(read_model(Document::parse_yaml(yaml, "a.yaml")));
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "none";
}

}  // namespace

// The sums of the shapes in transformer/diffusion_pytorch_model.safetensors of each.
TEST_CASE("FLUX.1 has its number of parameters", "[model]") {
  CHECK(shipped_diffusion("flux.1-dev").parameters() == 11'901'408'320);
  CHECK(shipped_diffusion("flux.1-schnell-256").parameters() == 11'891'178'560);
}

// 20.3 TFLOP per sample of both passes: mlcommons/training_results_v5.1,
// NVIDIA/benchmarks/flux1, MODEL_TFLOP_PER_SAMPLE.
TEST_CASE("FLUX.1 has the FLOPs that MLPerf's submitters count", "[model]") {
  const Model model = shipped_diffusion("flux.1-schnell-256");
  CHECK(model.fixed_sequence == 512);
  CHECK(3 * forward_flops(model, 512).count() / 1e12 == Approx(20.3).epsilon(0.005));
}

// Double block: modulation 64 x 768, two times qkv 64 x 192, projection 64 x 64, MLP 64 x 256 and
// back, all with biases, and four norms over 16. Single: 64 x 192, 64 x 448, 320 x 64, two norms.
TEST_CASE("blocks of a diffusion transformer have the parameters of their linears", "[model]") {
  const Model model = read_model(Document::parse_yaml(small_diffusion, "a.yaml"));
  REQUIRE(model.layers.size() == 3);
  CHECK(model.layers[0].parameters() ==
        64 * 768 + 768 +
            2 * (64 * 192 + 192 + 64 * 64 + 64 + 64 * 256 + 256 + 256 * 64 + 64 + 2 * 16));
  CHECK(model.layers[1].parameters() ==
        64 * 192 + 192 + 64 * 448 + 448 + 320 * 64 + 64 + 2 * 16);
  CHECK(model.layers[1] == model.layers[2]);
  CHECK(model.fixed_sequence == 16 + 16);
}

TEST_CASE("what is wrong with a diffusion transformer is told", "[model]") {
  const auto problem = [](const std::string& old, const std::string& now) {
    return problem_of_diffusion(small_diffusion, old, now);
  };
  CHECK(problem("heads: 4", "heads: 4") == "none");
  CHECK(problem("heads: 4", "heads: 5") == "heads is 5, which does not divide hidden 64");
  CHECK(problem("patch: 16", "patch: 15") == "patch is 15, which does not divide the image's size 64");
  CHECK(problem("double_layers: 1\n  single_layers: 2", "double_layers: 0\n  single_layers: 0") ==
        "a diffusion transformer has one block or more");
  CHECK(problem("vector: 24", "vector: 24\n  vocabulary: 100").starts_with("unknown key"));
}
