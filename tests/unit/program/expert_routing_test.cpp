// The share of tokens that choose a set of experts, against counting all choices.
#include "sim/program/expert_routing.hpp"

#include <cstdint>
#include <utility>

#include "tests/catch.hpp"

using namespace sim;

namespace {

int bits(std::uint32_t set) {
  int count = 0;
  for (; set != 0; set &= set - 1)
    ++count;
  return count;
}

// Chooses groups, then experts in them, in all ways; the set is the first `experts`.
double counted(const ExpertRouting& routing, std::int64_t experts) {
  const int groups = routing.groups > 0 ? static_cast<int>(routing.groups) : 1;
  const int chosen = routing.groups > 0 ? static_cast<int>(routing.groups_per_token) : 1;
  const int each = static_cast<int>(routing.experts) / groups;
  const std::uint32_t set = (1U << experts) - 1;
  double hits = 0, ways = 0;
  for (std::uint32_t of_groups = 0; of_groups < 1U << groups; ++of_groups) {
    if (bits(of_groups) != chosen) continue;
    std::uint32_t allowed = 0;
    for (int group = 0; group < groups; ++group)
      if ((of_groups >> group & 1U) != 0) allowed |= ((1U << each) - 1) << (group * each);
    for (std::uint32_t choice = 0; choice < 1U << routing.experts; ++choice) {
      if (bits(choice) != routing.per_token || (choice & ~allowed) != 0) continue;
      ways += 1;
      if ((choice & set) != 0) hits += 1;
    }
  }
  return hits / ways;
}

}  // namespace

TEST_CASE("the share of tokens that choose a set of experts", "[program]") {
  for (const ExpertRouting& routing :
       {ExpertRouting{.experts = 8, .per_token = 2}, ExpertRouting{.experts = 12, .per_token = 4},
        ExpertRouting{.experts = 12, .per_token = 3, .groups = 4, .groups_per_token = 2},
        ExpertRouting{.experts = 8, .per_token = 2, .groups = 4, .groups_per_token = 1}})
    for (const std::int64_t experts : {1, 2, 3, 4, 6, 8}) {
      CAPTURE(routing.experts, routing.per_token, routing.groups, experts);
      CHECK_THAT(share_that_chooses(routing, experts), WithinRel(counted(routing, experts), 1e-12));
    }
  // DeepSeek-V3 on 8 nodes: a group each, of which a token chooses half.
  const ExpertRouting v3{.experts = 256, .per_token = 8, .groups = 8, .groups_per_token = 4};
  const double missed = share_that_chooses(v3, 32);
  CHECK(missed < 0.5);
  CHECK(missed > 0.45);  // 8 choices rarely miss a chosen group
  CHECK(share_that_chooses(v3, 256) == 1);
}

TEST_CASE("runs of experts that follow each other choose few ranks", "[program]") {
  // Against running through the tokens: token t begins at expert k t.
  const auto run_through = [](const ExpertRouting& routing, std::int64_t set) {
    double hits = 0;
    for (std::int64_t token = 0; token < routing.experts; ++token) {
      bool meets = false;
      for (std::int64_t i = 0; i < routing.per_token; ++i)
        meets = meets || (token * routing.per_token + i) % routing.experts < set;
      hits += meets ? 1 : 0;
    }
    return hits / static_cast<double>(routing.experts);
  };
  for (const auto& [experts, per_token] : {std::pair{128, 8}, std::pair{256, 8}, std::pair{32, 4},
                                           std::pair{128, 6}, std::pair{512, 22}, std::pair{12, 5}})
    for (const std::int64_t set : {1, 2, 4, 8, experts / 2, experts}) {
      const ExpertRouting routing{.experts = experts, .per_token = per_token, .consecutive = true};
      CAPTURE(experts, per_token, set);
      CHECK_THAT(share_that_chooses(routing, set), WithinRel(run_through(routing, set), 1e-12));
    }
}
