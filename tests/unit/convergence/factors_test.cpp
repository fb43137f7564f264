// Pairing by seed, factors, and looking schemes up.
#include "sim/convergence/factors.hpp"

#include "tests/catch.hpp"
#include "tests/unit/convergence/fixture.hpp"

namespace sim {
namespace {

using test::straight;
using test::straight_lines;

}  // namespace

TEST_CASE("the target of a share of the fall is a loss of its own for each seed") {
  const ConvergenceFactors factors = straight_lines().factors;
  // Half of the falls 1 and 2 of the baseline: both behind 50 steps.
  CHECK_THAT(*factors.schemes[0].seeds[0].steps[0], WithinRel(50.0, 1e-9));
  CHECK_THAT(*factors.schemes[0].seeds[1].steps[0], WithinRel(50.0, 1e-9));
  // A loss is the same for all: 4.5 is behind 50 and 25 steps.
  CHECK_THAT(*factors.schemes[0].seeds[0].steps[2], WithinRel(50.0, 1e-9));
  CHECK_THAT(*factors.schemes[0].seeds[1].steps[2], WithinRel(25.0, 1e-9));
  CHECK_THAT(factors.schemes[0].seeds[1].final_loss, WithinRel(3.0, 1e-9));
}

TEST_CASE("the factor of the baseline is one, with every seed") {
  const ConvergenceFactors factors = straight_lines().factors;
  for (std::size_t target = 0; target < 3; ++target) {
    const StatisticalFactor factor = factor_of(factors, 0, target);
    CHECK(factor.by_seed == std::vector<std::optional<double>>{1.0, 1.0});
    REQUIRE(factor.spread);
    CHECK(factor.spread->mean == 1);
    CHECK(factor.spread->deviation == 0);
    CHECK_FALSE(factor.above);
  }
}

TEST_CASE("a scheme is paired with the baseline of the same seed") {
  const ConvergenceFactors factors = straight_lines().factors;
  // Half the rate of the baseline of each seed. Paired with the other seed, it would be 4 and 1.
  const StatisticalFactor half = factor_of(factors, 1, 0);
  REQUIRE(half.spread);
  CHECK_THAT(half.spread->mean, WithinRel(2.0, 1e-9));
  CHECK_THAT(half.spread->deviation, WithinAbs(0, 1e-9));
}

TEST_CASE("a target that some seeds do not reach has no factor, but a least one") {
  const ConvergenceFactors factors = straight_lines().factors;
  const StatisticalFactor half = factor_of(factors, 1, 1);
  CHECK(half.compared == 2);
  CHECK(half.reached == 0);
  CHECK_FALSE(half.spread);
  // 100 steps were looked at, and the baseline needs 80.
  REQUIRE(half.above);
  CHECK_THAT(*half.above, WithinRel(1.25, 1e-9));
  const StatisticalFactor mixed = factor_of(factors, 2, 0);
  CHECK(mixed.reached == 1);
  CHECK_FALSE(mixed.spread);
  CHECK_THAT(*mixed.above, WithinRel(2.0, 1e-9));
}

TEST_CASE("what was interrupted counts for nothing, and what failed is not reached") {
  ConvergenceResult result = straight_lines();
  result.curves[2] = {.scheme = 1,
                      .seed = 7,
                      .losses = {5, 4},
                      .end = SeedEnd::failed,
                      .failure = "step 2: not finite"};
  result.curves[3].end = SeedEnd::not_run;
  score_curves(result.factors, result.curves);
  const StatisticalFactor half = factor_of(result.factors, 1, 0);
  CHECK(half.compared == 1);
  CHECK(half.reached == 0);
  CHECK_FALSE(half.spread);
  CHECK_FALSE(half.above);
  CHECK_FALSE(final_loss_of(result.factors.schemes[1]));
  // Without a baseline of the seed there is no factor.
  result.curves[1].end = SeedEnd::not_run;
  score_curves(result.factors, result.curves);
  const StatisticalFactor mixed = factor_of(result.factors, 2, 0);
  CHECK(mixed.compared == 1);
  CHECK(mixed.spread->mean == 1);
  CHECK_FALSE(mixed.by_seed[1]);
}

TEST_CASE("schemes are found by exactly their keys") {
  const ConvergenceFactors factors = straight_lines().factors;
  REQUIRE(find_scheme(factors, {}));
  CHECK(find_scheme(factors, {})->scheme.name == "none");
  // 0.01 is the 0.010 of the file.
  REQUIRE(find_scheme(factors, {{"layout.compression.density", "0.01"}}));
  CHECK(find_scheme(factors, {{"layout.compression.density", "0.01"}})->scheme.name == "half");
  CHECK(find_scheme(factors, {{"layout.compression.density", "0.02"}}) == nullptr);
  CHECK(find_scheme(factors, {{"layout.compression.density", "0.01"},
                              {"layout.zero_stage", "3"}}) == nullptr);
  CHECK(find_scheme(factors, {{"layout.zero_stage", "3"}}) == nullptr);  // it had a warm-up
  REQUIRE(find_scheme(factors, {{"layout.zero_stage", "3"}}, 5));
  CHECK(find_scheme(factors, {{"layout.zero_stage", "3"}}, 5)->scheme.name == "mixed");
}

}  // namespace sim
