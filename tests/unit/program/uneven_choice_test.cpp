// Uneven choices of experts, against counting all sets.
#include "sim/program/uneven_choice.hpp"

#include <cmath>

#include "sim/program/expert_routing.hpp"
#include "tests/catch.hpp"

using namespace sim;

namespace {

// Counted over all sets of `k` experts, each with the product of its weights: the share of tokens
// that choose each expert, and that choose one of a block which is kept.
struct Counted {
  std::vector<double> chosen;
  std::vector<double> blocks;
};
Counted count(const std::vector<double>& weights, int k, std::size_t size,
              const std::vector<double>& kept) {
  const std::size_t experts = weights.size();
  Counted made{std::vector<double>(experts, 0.0), std::vector<double>(experts / size, 0.0)};
  double all = 0;
  for (std::uint32_t set = 0; set < 1U << experts; ++set) {
    int members = 0;
    double weight = 1;
    std::vector<double> missed(experts / size, 1.0);
    for (std::size_t i = 0; i < experts; ++i) {
      if ((set >> i & 1U) == 0) continue;
      ++members;
      weight *= weights[i];
      missed[i / size] *= 1 - kept[i];
    }
    if (members != k) continue;
    all += weight;
    for (std::size_t i = 0; i < experts; ++i)
      if ((set >> i & 1U) != 0) made.chosen[i] += weight;
    for (std::size_t b = 0; b < missed.size(); ++b)
      made.blocks[b] += weight * (1 - missed[b]);
  }
  for (double& share : made.chosen)
    share /= all;
  for (double& share : made.blocks)
    share /= all;
  return made;
}

}  // namespace

TEST_CASE("equal loads are chosen as even ones", "[program][experts]") {
  for (const std::int64_t per_token : {1, 2, 4, 8}) {
    const UnevenChoice choice{std::vector<double>(8, 1.0), per_token};
    const ExpertRouting even{.experts = 8, .per_token = per_token};
    for (const std::int64_t size : {1, 2, 4, 8})
      for (const double share : choice.shares_of_blocks(size))
        CHECK_THAT(share, WithinRel(share_that_chooses(even, size), 1e-12));
  }
}

TEST_CASE("shares of blocks are those of counting all sets with the loads that are given",
          "[program][experts]") {
  const std::vector<double> weights{3, 0.5, 1, 0.2, 2, 1, 0.1, 4};
  const std::vector<double> kept{0.5, 1, 1, 1, 0.8, 1, 1, 0.3};
  for (const int per_token : {1, 2, 3, 5})
    for (const std::size_t size : {1U, 2U, 4U}) {
      CAPTURE(per_token, size);
      const Counted expected = count(weights, per_token, size, kept);
      std::vector<double> load;
      for (const double share : expected.chosen)
        load.push_back(share * static_cast<double>(weights.size()) / per_token);
      const UnevenChoice choice{load, per_token, kept};
      const std::vector<double> shares = choice.shares_of_blocks(static_cast<std::int64_t>(size));
      for (std::size_t b = 0; b < shares.size(); ++b)
        CHECK_THAT(shares[b], WithinRel(expected.blocks[b], 1e-4));
    }
}

TEST_CASE("experts that all choose, or none", "[program][experts]") {
  const UnevenChoice choice{{2, 2, 0, 0}, 2};
  CHECK_THAT(choice.shares_of_blocks(1)[0], WithinAbs(1, 1e-6));
  CHECK_THAT(choice.shares_of_blocks(2)[1], WithinAbs(0, 1e-6));
  for (const double share : UnevenChoice{{4, 0, 0, 0}, 1}.shares_of_blocks(2))
    CHECK(std::isfinite(share));
}

TEST_CASE("imbalance of a block of ranks", "[program][experts]") {
  ExpertRouting routing{.experts = 64, .per_token = 4, .imbalance = 1.5};
  CHECK(imbalance_of(routing, 1) == 1.5);
  CHECK(imbalance_of(routing, 8) == 1.5);
  routing.of_blocks = {1.6, 1.4, 1.2, 1.1};
  CHECK(imbalance_of(routing, 1) == 1.6);
  CHECK(imbalance_of(routing, 4) == 1.2);
  CHECK_THAT(imbalance_of(routing, 3), WithinRel(1.4 - 0.2 * std::log2(1.5), 1e-12));
  CHECK(imbalance_of(routing, 64) == 1.1);
}
