#include "sim/timeline/sequence_match.hpp"

#include <cmath>

#include "tests/catch.hpp"

namespace {

using namespace sim;

SequencePairs match_numbers(const std::vector<double>& a, const std::vector<double>& b) {
  return match_sequences(
      static_cast<std::uint32_t>(a.size()), static_cast<std::uint32_t>(b.size()),
      [&](std::uint32_t i, std::uint32_t j) { return std::abs(a[i] - b[j]); }, 1);
}

TEST_CASE("equal sequences are paired one by one") {
  CHECK(match_numbers({1, 2, 3}, {1, 2, 3}) == SequencePairs{{0, 0}, {1, 1}, {2, 2}});
}

TEST_CASE("an entry too many is left out, wherever it is") {
  CHECK(match_numbers({1, 9, 3}, {1, 5, 9, 3}) == SequencePairs{{0, 0}, {1, 2}, {2, 3}});
  CHECK(match_numbers({5, 1, 9}, {1, 9}) == SequencePairs{{1, 0}, {2, 1}});
}

TEST_CASE("a pair that costs more than both left out is none") {
  CHECK(match_numbers({1}, {4}).empty());
}

TEST_CASE("nothing pairs with nothing") {
  CHECK(match_numbers({}, {}).empty());
  CHECK(match_numbers({}, {1, 2}).empty());
  CHECK(match_numbers({1, 2}, {}).empty());
}

}  // namespace
