// Smoothing and steps to a target, on curves whose answers follow by hand.
#include "sim/convergence/curve.hpp"

#include <cmath>

#include "sim/base/random.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

std::vector<double> line(int steps, double begin, double slope) {
  std::vector<double> losses(static_cast<std::size_t>(steps));
  for (int i = 0; i < steps; ++i)
    losses[static_cast<std::size_t>(i)] = begin - slope * i;
  return losses;
}

}  // namespace

TEST_CASE("a centred average leaves a straight line as it is") {
  const std::vector<double> losses = line(21, 5, 0.1);
  const std::vector<double> curve = smoothed(losses, 7);
  REQUIRE(curve.size() == 21 - 3);
  for (std::size_t i = 0; i < curve.size(); ++i)
    CHECK_THAT(curve[i], WithinAbs(losses[i], 1e-12));
}

TEST_CASE("a window of one is the curve itself, and too short a curve has no values") {
  const std::vector<double> losses{3, 1, 2};
  CHECK(smoothed(losses, 1) == losses);
  CHECK(smoothed(losses, 5).empty());
  CHECK(smoothed({}, 1).empty());
}

TEST_CASE("the average is narrower at the beginning") {
  const std::vector<double> losses{6, 0, 3, 3, 3};
  // Means of 1, of 3 and of 5 values.
  CHECK(smoothed(losses, 5) == std::vector<double>{6, 3, 3});
}

TEST_CASE("steps to a level are found between two steps") {
  // 5, 4.9, 4.8, ...: 4.25 is behind 7.5 updates.
  const std::vector<double> curve = line(21, 5, 0.1);
  REQUIRE(steps_to(curve, 4.25));
  CHECK_THAT(*steps_to(curve, 4.25), WithinRel(7.5, 1e-9));
  CHECK(steps_to(curve, 5.0) == 0.0);
  CHECK(steps_to(curve, 6.0) == 0.0);
  CHECK_FALSE(steps_to(curve, 2.9));
  CHECK_FALSE(steps_to({}, 1));
}

TEST_CASE("the first time counts where a curve comes to a level twice") {
  const std::vector<double> curve{4, 2, 3, 1};
  CHECK(steps_to(curve, 2.0) == 1.0);
  CHECK(steps_to(curve, 2.5) == 0.75);
}

TEST_CASE("noise that a window averages out does not move the steps to a target") {
  // exp(-i / 40) falls to 1 / e behind 40 steps. The mean of 25 values of noise of deviation 0.05
  // has a deviation of 0.01; the slope there is 1 / (40 e), so that is 1.1 steps; the curvature
  // over the window adds 12 x 13 / 6 / 40 = 0.65 steps. Four deviations.
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    std::vector<double> losses(120);
    for (std::size_t i = 0; i < losses.size(); ++i)
      losses[i] = std::exp(-static_cast<double>(i) / 40.0) + 0.05 * standard_normal(seed, 0, i);
    const auto steps = steps_to(smoothed(losses, 25), std::exp(-1.0));
    REQUIRE(steps);
    CHECK_THAT(*steps, WithinAbs(40.65, 4.4));
  }
}

TEST_CASE("the spread is the sample standard deviation") {
  CHECK_FALSE(spread_of({}));
  const std::vector<double> one{3};
  CHECK(spread_of(one)->mean == 3);
  CHECK(spread_of(one)->deviation == 0);
  const std::vector<double> values{2, 4, 6};  // squares 4 + 0 + 4, over 2
  CHECK(spread_of(values)->mean == 4);
  CHECK(spread_of(values)->deviation == 2);
}

}  // namespace sim
