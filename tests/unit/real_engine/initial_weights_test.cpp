// The numbers that weights start from: which they are, and that they do not depend on how they are
// asked for.
#include "real/engine/initial_weights.hpp"

#include <cmath>
#include <mutex>
#include <numbers>
#include <set>

#include "real/engine/kernels/normal_values.hpp"
#include "real/engine/rank_state.hpp"
#include "sim/base/random.hpp"
#include "tests/catch.hpp"

namespace real::test {
namespace {

std::vector<float> numbers(std::int64_t first, std::size_t count) {
  std::vector<float> values(count);
  normal_values(7, 11, first, 0.02, values);
  return values;
}

// By the C library, as Box and Muller have it.
double reference(std::int64_t index) {
  const auto pair = 2 * static_cast<std::uint64_t>(index / 2);
  const double radius = std::sqrt(-2.0 * std::log(sim::uniform(7, 11, pair)));
  const double angle = 2.0 * std::numbers::pi * sim::uniform(7, 11, pair + 1);
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle)) * 0.02;
}

}  // namespace

TEST_CASE("initial weights are those of the C library's logarithm and sine, to the last bit",
          "[initial_weights]") {
  const std::vector<float> values = numbers(0, 200'000);
  int different = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto expected = static_cast<float>(reference(static_cast<std::int64_t>(i)));
    different += values[i] != expected ? 1 : 0;
    if (std::abs(values[i] - expected) > std::abs(expected) * 2e-7F) {
      CAPTURE(i, values[i], expected);
      REQUIRE(false);
    }
  }
  // Polynomials are within 1e-15: one in millions may be rounded to the other neighbour.
  CHECK(different <= 1);
}

TEST_CASE("initial weights do not depend on where a piece begins and ends", "[initial_weights]") {
  const std::vector<float> all = numbers(0, 101);
  for (const std::int64_t first : {0, 1, 2, 7, 100})
    for (const std::int64_t count : {0, 1, 2, 3, 94}) {
      if (first + count > 101) continue;
      CAPTURE(first, count);
      CHECK(numbers(first, static_cast<std::size_t>(count)) ==
            std::vector<float>(all.begin() + first, all.begin() + first + count));
    }
}

TEST_CASE("work in shares covers everything once", "[initial_weights]") {
  for (const int threads : {1, 3, 16})
    for (const std::int64_t size : {0, 1, 5, 1000}) {
      std::mutex access;
      std::multiset<std::int64_t> seen;
      in_shares(size, threads, [&](std::int64_t at, std::int64_t count) {
        const std::lock_guard lock{access};
        for (std::int64_t i = at; i < at + count; ++i)
          seen.insert(i);
      });
      CAPTURE(threads, size);
      CHECK(std::ssize(seen) == size);
      CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == seen.size());
    }
}

}  // namespace real::test
