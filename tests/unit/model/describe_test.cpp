// Models in words.
#include "sim/model/describe.hpp"

#include <fmt/format.h>

#include "sim/config/reader.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string shipped(const std::string& name) {
  return describe(load_model(sim::test::source_dir() + "/models/" + name));
}

}  // namespace

TEST_CASE("a transformer is described by its sizes and one block of each kind", "[model]") {
  // Hidden h = 64, feed-forward 4 h, vocabulary V = 1000, 32 positions, biases everywhere. A layer:
  // two norms 2 (2h), QKV h 3h + 3h, projection h h + h, MLP 2 h 4h + 4h + h = 12 h h + 13 h =
  // 49,984. All: 2 of them, embeddings (V + 32) h, last norm 2h; the head is tied: 166,144.
  const Model small = read_model(Document::parse_yaml(R"(name: small
source: made for this test
transformer: {layers: 2, hidden: 64, heads: 4, feed_forward: 256, vocabulary: 1000, norm: layer,
  activation: gelu, positions: learned, max_sequence: 32, biases: all, tied_head: true}
)",
                                                      "m.yaml"));
  const std::string text = describe(small);
  CHECK(text.starts_with("small ("));
  CHECK(has(text, "\nsource      made for this test\nparameters  166,144\nlayers      2\n"));
  CHECK(has(text,
            "\nhidden      64\nffn         256\nheads       4 of 16 (4 key/value), causal\n"
            "vocabulary  1000, head tied to the embedding\n"));
  CHECK(has(text, "\n\nfirst of the layers: 49,984 parameters\n"));
  CHECK_FALSE(has(text, "experts"));
  const std::vector<NamedModel> both{{"a", small}, {"b", small}};
  CHECK(has(model_table(both),
            fmt::format("\nb{:<25}{:<10}{:>18}{:>8}{:>8}\n", "", small.family, "166,144", 2, 64)));
}

TEST_CASE("windows, experts and lists of layers are told where a model has them", "[model]") {
  // Every sixth of 26 layers looks at all tokens; every fourth of 36 has no positions.
  CHECK(has(shipped("gemma-3-1b.yaml"), "\nwindow      512 tokens in 22 of 26 layers\n"));
  CHECK(has(shipped("smollm3-3b.yaml"), "\npositions   rotary, in 27 of 36 layers\n"));
  CHECK(has(shipped("mixtral-8x7b.yaml"), "\nexperts     2 of 8 for each token; it passes "));
  CHECK(has(shipped("deepseek-v3.yaml"), "\nlayer 4, the first with experts: "));
  CHECK_FALSE(has(shipped("resnet50.yaml"), "vocabulary"));
}
