// The head and the loss in chunks of tokens.
#include "sim/plan/sharding/chunked_loss.hpp"

#include <algorithm>

#include "sim/framework/presets/preset.hpp"
#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/unit/plan/checked_plan.hpp"
#include "tests/unit/plan/framework_programs.hpp"
#include "tests/unit/plan/models.hpp"

using namespace sim;

namespace {

Model with(LossForm loss) {
  Framework framework = preset_of(PresetName::transformers).framework;
  framework.loss = loss;
  return test::llama_of(framework);
}

std::int64_t largest_tensor(const Model& model, const Layout& layout) {
  const Program program = test::checked_plan(model, layout).programs[0];
  std::int64_t bytes = 0;
  for (const Buffer& buffer : program.buffers)
    if (!buffer.persistent) bytes = std::max(bytes, buffer.size.count());
  return bytes;
}

}  // namespace

TEST_CASE("logits of a chunk take about what the input of the head does", "[plan][loss]") {
  // 128,256 classes over 4,096 features: 32 parts of 8,192 tokens.
  CHECK(tokens_of_chunk(8192, 4096, 128'256) == 256);
  // 300 up to a power of two.
  CHECK(tokens_of_chunk(9600, 4096, 128'256) == 512);
  CHECK(tokens_of_chunk(100, 4096, 1000) == 100);
}

TEST_CASE("a chunked loss holds the logits of a chunk alone", "[plan][loss]") {
  Layout layout = test::layout_for(1, 1, 1, 2);
  layout.lora_rank = 8;  // no gradient of the head's weight
  const Model eager = with(LossForm::eager), chunked = with(LossForm::chunked);
  const std::int64_t tokens = layout.micro_batch * layout.sequence_length;
  REQUIRE(eager.vocabulary > eager.hidden);
  const std::int64_t held = tokens_of_chunk(tokens, eager.hidden, eager.vocabulary);
  const Program program = test::checked_plan(chunked, layout).programs[0];
  const auto exists = [&](std::int64_t rows) {
    return std::ranges::any_of(program.buffers, [&](const Buffer& buffer) {
      return buffer.size.count() == rows * chunked.vocabulary * 2;
    });
  };
  CHECK(exists(held));
  CHECK_FALSE(exists(tokens));
  CHECK(largest_tensor(chunked, layout) < largest_tensor(eager, layout));
}

TEST_CASE("a chunked loss over a split vocabulary is refused", "[plan][problems]") {
  const std::vector<LayoutProblem> problems =
      layout_problems(test::layout_for(2, 1, 1, 2), with(LossForm::chunked));
  CHECK(std::ranges::any_of(problems,
                            [](const LayoutProblem& one) { return one.key == "tensor_parallel"; }));
}
