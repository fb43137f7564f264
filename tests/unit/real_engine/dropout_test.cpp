// The draws of dropout: Philox's published numbers, and what a mask follows from.
#include "real/engine/kernels/dropout.hpp"

#include <vector>

#include "tests/catch.hpp"

namespace real::test {
namespace {

struct Draws {
  kernels::AdamStep step{.number = 5};
  kernels::Dropout dropout{.probability = 0.25, .seed = 11, .site = 3, .step = &step};

  std::vector<float> factors(std::uint64_t first, std::uint64_t count) const {
    DropoutMask mask{dropout};
    std::vector<float> factors;
    for (std::uint64_t i = 0; i < count; ++i)
      factors.push_back(mask.factor(first + i));
    return factors;
  }
};

}  // namespace

// kat_vectors of Random123 (Salmon et al. 2011), philox4x32 of 10 rounds.
TEST_CASE("Philox gives the numbers that its authors publish", "[dropout]") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("an element is dropped or divided by what is kept", "[dropout]") {
  const std::vector<float> factors = Draws{}.factors(0, 100'000);
  std::size_t dropped = 0;
  for (const float factor : factors) {
    CHECK((factor == 0.0F || factor == 1 / 0.75F));
    dropped += factor == 0.0F ? 1 : 0;
  }
  // Six deviations of 100,000 draws of 0.25: 6 sqrt(0.1875 / 100,000) = 0.8%.
  CHECK_THAT(static_cast<double>(dropped) / 1e5, WithinAbs(0.25, 0.009));
}

TEST_CASE("a mask follows from seed, step, operator and the number of the element", "[dropout]") {
  const Draws draws;
  const std::vector<float> factors = draws.factors(0, 64);
  // From any place on, also beyond 2^34 elements, where the upper word of the counter changes.
  CHECK(draws.factors(17, 47) == std::vector(factors.begin() + 17, factors.end()));
  CHECK(draws.factors(std::uint64_t{1} << 34, 64) != factors);
  Draws other;
  other.dropout.seed = 12;
  CHECK(other.factors(0, 64) != factors);
  other = Draws{};
  other.dropout.seed += std::uint64_t{1} << 32;
  other.dropout.step = &draws.step;
  CHECK(other.factors(0, 64) != factors);
  other = Draws{};
  other.dropout.step = &draws.step;
  CHECK(other.factors(0, 64) == factors);
  other.dropout.site = 4;
  CHECK(other.factors(0, 64) != factors);
  const kernels::AdamStep next{.number = 6};
  other = Draws{};
  other.dropout.step = &next;
  CHECK(other.factors(0, 64) != factors);
}

}  // namespace real::test
