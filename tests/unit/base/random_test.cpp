#include "sim/base/random.hpp"

#include "tests/catch.hpp"

namespace {

// SplitMix64 with seed 0 begins with these (Vigna's reference implementation, splitmix64.c); mix64
// of n increments is its n-th output.
static_assert(sim::mix64(0) == 0xe220a8397b1dcdafULL);
static_assert(sim::mix64(0x9e3779b97f4a7c15ULL) == 0x6e789e6aa1b965f4ULL);

TEST_CASE("a draw depends on seed, stream and index alone", "[random]") {
  CHECK(sim::uniform(1, 2, 3) == sim::uniform(1, 2, 3));
  CHECK(sim::uniform(1, 2, 3) != sim::uniform(1, 2, 4));
  CHECK(sim::uniform(1, 2, 3) != sim::uniform(1, 3, 3));
  CHECK(sim::uniform(1, 2, 3) != sim::uniform(2, 2, 3));
  CHECK(sim::uniform(1, 2, 3) != sim::uniform(1, 3, 2));
}

// The mean of n draws of a uniform lies within 1/2 +- 5/sqrt(12 n), its variance near 1/12; of a
// standard normal 0 +- 5/sqrt(n) and 1 +- 5 sqrt(2/n). The seeds are fixed, so this never flickers.
TEST_CASE("uniform and normal draws have their mean and variance", "[random]") {
  constexpr int n = 100'000;
  double sum = 0;
  double squares = 0;
  double normal_sum = 0;
  double normal_squares = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double u = sim::uniform(42, 7, i);
    REQUIRE((u > 0 && u < 1));
    sum += u;
    squares += u * u;
    const double z = sim::standard_normal(42, 8, i);
    normal_sum += z;
    normal_squares += z * z;
  }
  const double mean = sum / n;
  CHECK_THAT(mean, WithinAbs(0.5, 5 / std::sqrt(12.0 * n)));
  CHECK_THAT(squares / n - mean * mean, WithinAbs(1.0 / 12, 0.001));
  CHECK_THAT(normal_sum / n, WithinAbs(0, 5 / std::sqrt(n)));
  CHECK_THAT(normal_squares / n, WithinAbs(1, 5 * std::sqrt(2.0 / n)));
}

}  // namespace
