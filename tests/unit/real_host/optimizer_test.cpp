// AdamW against its formulas in float64.
#include "real/host/kernels/kernels_optimizer.hpp"
#include "tests/unit/real_host/kernel_check.hpp"

using namespace real_test;  // NOLINT(google-build-using-namespace)

TEST_CASE("AdamW follows its formulas over many steps, with and without a master copy",
          "[real_host]") {
  const bool masters = GENERATE(false, true);
  const std::uint64_t seed = GENERATE(range(0, 3));
  CAPTURE(masters, seed);
  const std::int64_t size = random_size(seed, 1, 1, 2500);
  real::AdamStep step{.learning_rate = 0.01,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .epsilon = 1e-8,
                      .weight_decay = 0.1,
                      .gradient_scale = 0.5};
  Floats weight = random_floats(seed, 2, size);
  Floats master = masters ? weight : Floats{};
  Floats m(weight.size());
  Floats v(weight.size());
  Doubles w = exact(weight);
  Doubles first(w.size());
  Doubles second(w.size());
  for (int age = 1; age <= 10; ++age) {
    const Floats gradient = random_floats(seed, 100 + static_cast<std::uint64_t>(age), size, 0.1);
    const double bias1 = step.correction1 = 1 - std::pow(0.9, static_cast<double>(age));
    const double bias2 = step.correction2 = 1 - std::pow(0.95, static_cast<double>(age));
    real::adamw(step, gradient, weight, master, m, v);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = 0.5 * static_cast<double>(gradient[i]);
      w[i] -= 0.01 * 0.1 * w[i];
      first[i] = 0.9 * first[i] + 0.1 * g;
      second[i] = 0.95 * second[i] + 0.05 * g * g;
      w[i] -= 0.01 * (first[i] / bias1) / (std::sqrt(second[i] / bias2) + 1e-8);
    }
  }
  CHECK(relative_error(weight, w) < float_error);
  CHECK(relative_error(m, first) < float_error);
  CHECK(relative_error(v, second) < float_error);
  if (masters) CHECK(master == weight);
}

TEST_CASE("the sum of squares of a gradient is exact to float32", "[real_host]") {
  const std::int64_t size = GENERATE(1, 1024, 100'000);
  const Floats gradient = random_floats(3, 1, size);
  double expected = 0;
  for (const float value : gradient)
    expected += static_cast<double>(value) * static_cast<double>(value);
  CHECK(std::abs(real::sum_of_squares(gradient) / expected - 1) < 1e-6);
}

TEST_CASE("clipping brings the norm down to the limit and leaves smaller ones alone",
          "[real_host]") {
  CHECK(std::abs(real::clip_scale(4.0, 1.0) - 0.25) < 1e-6);
  CHECK(real::clip_scale(0.5, 1.0) == 1.0);
  CHECK(real::clip_scale(0.0, 1.0) == 1.0);
  CHECK(real::clip_scale(4.0, 0.0) == 1.0);
}
