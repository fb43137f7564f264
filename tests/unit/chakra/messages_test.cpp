// Messages as the two neighbours of a rank.
#include "sim/chakra/messages.hpp"

#include <set>

#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "tests/catch.hpp"
#include "tests/unit/chakra/traces.hpp"

using namespace sim;
using namespace sim::test;

namespace {

EtMessages messages_between(const EtRun& run) {
  std::vector<EtOrder> orders;
  for (const EtFile& file : run.ranks)
    orders.push_back(order_of(file));
  return messages_of(run, orders);
}

EtRun run_of(std::size_t ranks, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs) {
  std::vector<std::vector<EtNode>> nodes(ranks);
  std::uint64_t id = 1;
  for (const auto& [from, to] : pairs) {
    nodes[from].push_back(et_message(id++, EtType::send, from, to));
    nodes[to].push_back(et_message(id++, EtType::receive, from, to));
  }
  return et_run(std::move(nodes));
}

}  // namespace

TEST_CASE("messages: a rank sends each way to one rank, and receives that way from one") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::uint64_t draws = 0;
    const auto below = [&](std::uint32_t n) {
      return static_cast<std::uint32_t>(uniform(seed, 0, draws++) * n);
    };
    const std::uint32_t ranks = 2 + below(9);
    std::vector<int> out(ranks), in(ranks);
    std::set<std::pair<std::uint32_t, std::uint32_t>> drawn;
    for (int i = 0; i < 60; ++i) {
      const auto from = below(ranks);
      const auto to = below(ranks);
      if (from == to || out[from] == 2 || in[to] == 2 || drawn.count({from, to}) > 0) continue;
      ++out[from];
      ++in[to];
      drawn.insert({from, to});
    }
    const std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs{drawn.begin(), drawn.end()};
    const EtMessages made = messages_between(run_of(ranks, pairs));
    INFO("seed " << seed);
    if (pairs.empty()) {
      CHECK(made.peer_of.empty());
      continue;
    }
    REQUIRE(made.way.size() == pairs.size());
    for (const std::size_t way : {0U, 1U}) {
      std::set<std::uint32_t> receivers;
      std::size_t senders = 0;
      for (std::uint32_t rank = 0; rank < ranks; ++rank)
        if (made.peer_of[rank][way].value != rank) {
          ++senders;
          receivers.insert(made.peer_of[rank][way].value);
        }
      CHECK(receivers.size() == senders);
    }
    for (const auto& [pair, way] : made.way)
      CHECK(made.peer_of[pair.first][static_cast<std::size_t>(way)].value == pair.second);
  }
}

TEST_CASE("messages: what has no other side, or too many, is refused by rank") {
  CHECK_THROWS_WITH(messages_between(run_of(4, {{0, 1}, {0, 2}, {0, 3}})),
                    contains_text("more than two others"));
  EtRun alone = run_of(2, {{0, 1}});
  alone.ranks[1].nodes.clear();
  CHECK_THROWS_WITH(messages_between(alone), contains_text("which receives 0"));
  EtRun unequal = run_of(2, {{0, 1}});
  unequal.ranks[1].nodes[0].comm_bytes = 5;
  CHECK_THROWS_WITH(messages_between(unequal), contains_text("of 1000 bytes, and of 5"));
  CHECK_THROWS_AS(messages_between(run_of(2, {{1, 1}})), InputError);
}
