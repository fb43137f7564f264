#include "real/engine/kernels/dropout.hpp"

#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::kernels::AdamStep;
using sim::DType;

TEST_CASE("a residual sum drops the elements that the host drops", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::size_t width = GENERATE(48, 5);  // whole vectors, and none
  const bool adds = GENERATE(true, false);
  const std::vector<AdamStep> steps{{.number = 6}};
  const Values<AdamStep> step{steps};
  // Tokens 2 ... 11 of sequences of 4, the first of which is the third of the global batch.
  real::kernels::DropoutShape shape{
      .dtype = dtype,
      .tokens = {.tokens = 9, .sequence = 4, .first_token = 2},
      .first_sequence = 3,
      .width = static_cast<std::int64_t>(width),
      .dropout = {.probability = 0.3, .seed = 1ULL << 40, .site = 9, .step = step.data()}};
  const Numbers x = random_numbers(1, 9 * width, dtype), past = random_numbers(2, x.size(), dtype);
  const Array input{dtype, x}, residual{dtype, past};
  real::kernels::drop(shape, input.data(), adds ? residual.data() : nullptr, input.data(), nullptr);

  shape.dropout.step = steps.data();
  real::DropoutMask mask{shape.dropout};
  Numbers expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint64_t first = (3 * 4 + 2) * width;  // all sequences lie behind each other
    expected[i] = x[i] * static_cast<double>(mask.factor(first + i)) + (adds ? past[i] : 0);
  }
  CHECK(worst_error(input.numbers(), expected) < tolerance(dtype));
}
