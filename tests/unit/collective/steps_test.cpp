#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/random.hpp"
#include "tests/catch.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;

namespace {

struct Played {
  double seconds = 0;
  std::int64_t bytes = 0;
};

// The rounds of a sequence under an alpha-beta model with two ports per rank, one to its node and
// one to the network: in a round a port carries its messages one after the other. Written for the
// test alone: it knows nothing of algorithms.
Played play(const StepSequence& steps, const CollectiveCost& cost, const GroupShape& shape) {
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  const double intra = shape.intra_bandwidth.in_bytes_per_second();
  const double inter = shape.inter_bandwidth.in_bytes_per_second() / shape.ranks_per_node;
  std::vector<double> entered(ranks, 0);
  Played played;
  std::vector<std::vector<StepSend>> sends(ranks);
  for (int round = 0; round < steps.rounds(); ++round) {
    std::vector<std::array<double, 2>> out(ranks), in(ranks);
    std::vector<int> arrivals(ranks, 0);
    const auto outside = [&](std::size_t from, std::size_t to) {
      return static_cast<int>(from) / shape.ranks_per_node !=
             static_cast<int>(to) / shape.ranks_per_node;
    };
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      steps.sends(static_cast<int>(rank), round, sends[rank]);
      for (const StepSend& send : sends[rank]) {
        const double time =
            static_cast<double>(send.bytes.count()) / (outside(rank, send.to) ? inter : intra);
        out[rank][outside(rank, send.to)] += time;
        in[send.to][outside(rank, send.to)] += time;
        ++arrivals[send.to];
        played.bytes += send.bytes.count();
      }
    }
    std::vector<double> next = entered;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      REQUIRE(steps.receives(static_cast<int>(rank), round) == arrivals[rank]);
      for (const StepSend& send : sends[rank]) {
        const int port = outside(rank, send.to);
        const Duration latency =
            (port ? shape.inter_latency : shape.intra_latency) +
            step_overhead(cost, shape, port ? PathKind::network : PathKind::nvlink);
        const double arrival = entered[rank] + std::max(0.0, to_seconds(latency)) +
                               std::max(out[rank][port], in[send.to][port]);
        next[rank] = std::max(next[rank], arrival);
        next[send.to] = std::max(next[send.to], arrival);
      }
    }
    entered = next;
  }
  played.seconds = *std::max_element(entered.begin(), entered.end());
  return played;
}

struct Case {
  CollectiveKind kind;
  Algorithm algorithm;
};
constexpr Case cases[] = {
    {CollectiveKind::all_reduce, Algorithm::ring},
    {CollectiveKind::reduce_scatter, Algorithm::ring},
    {CollectiveKind::all_gather, Algorithm::ring},
    {CollectiveKind::broadcast, Algorithm::ring},
    {CollectiveKind::reduce, Algorithm::ring},
    {CollectiveKind::all_reduce, Algorithm::tree},
    {CollectiveKind::all_reduce, Algorithm::halving_doubling},
    {CollectiveKind::all_reduce, Algorithm::hierarchical},
    {CollectiveKind::reduce_scatter, Algorithm::hierarchical},
    {CollectiveKind::all_gather, Algorithm::hierarchical},
    {CollectiveKind::all_reduce, Algorithm::parameter_server},
    {CollectiveKind::all_to_all, Algorithm::direct},
};

}  // namespace

TEST_CASE("messages take what the closed form says when nothing is shared", "[collective]") {
  // A flat fabric: on rails, the edge that closes a ring over an odd number of nodes also passes
  // through a neighbour's NVLink, which the ports of play() do not know.
  const Cluster cluster = load("aws-p5", 16);
  std::map<std::string, double> worst;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const auto pick = [&](std::uint64_t stream, int count) {
      return static_cast<int>(uniform(seed, stream, 0) * count);
    };
    const Case one = cases[pick(0, static_cast<int>(std::size(cases)))];
    const int nodes = 1 + pick(1, 16);
    const int per_node = 1 + pick(2, 8);
    if (nodes * per_node == 1) continue;
    const Bytes bytes{static_cast<std::int64_t>(std::exp2(10 + 22 * uniform(seed, 3, 0)))};
    const GroupShape shape = group_shape(cluster, block(cluster, nodes, per_node));
    const Collective request{.kind = one.kind, .bytes = bytes};
    const CollectiveChoice choice{.algorithm = one.algorithm,
                                  .server_shards = 1 + pick(4, nodes * per_node),
                                  .use_measured = false};
    const CollectiveCost cost = collective_cost(cluster, shape, request, choice);
    const auto steps = step_sequence(request, cost, shape, choice.server_shards);
    CAPTURE(seed, word(one.kind), word(one.algorithm), word(cost.protocol), nodes, per_node,
            bytes.count(), choice.server_shards);
    CHECK(steps->rounds() == cost.rounds);
    const Played played = play(*steps, cost, shape);
    const double error = std::fabs(played.seconds / seconds(cost) - 1);
    CHECK(error < 0.02);
    double& all = worst[std::string(word(one.kind)) + " " + std::string(word(one.algorithm))];
    all = std::max(all, error);
  }
  for (const auto& [name, error] : worst)
    UNSCOPED_INFO(name << " " << error);
}

TEST_CASE("an algorithm moves the bytes that it must", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  struct Expected {
    Case one;
    int nodes, per_node;
    double factor;  // of the buffer, over all ranks
  };
  const Expected expected[] = {
      {{CollectiveKind::all_reduce, Algorithm::ring}, 4, 8, 2 * 31},
      {{CollectiveKind::all_reduce, Algorithm::ring}, 3, 3, 2 * 8},
      {{CollectiveKind::all_gather, Algorithm::ring}, 4, 8, 31},
      {{CollectiveKind::broadcast, Algorithm::ring}, 4, 8, 31},
      {{CollectiveKind::reduce, Algorithm::ring}, 1, 5, 4},
      // Both trees are trees of all ranks: each byte goes up and down every edge of one of them.
      {{CollectiveKind::all_reduce, Algorithm::tree}, 4, 8, 2 * 31},
      {{CollectiveKind::all_reduce, Algorithm::tree}, 3, 1, 2 * 2},
      {{CollectiveKind::all_reduce, Algorithm::halving_doubling}, 4, 8, 2 * 31},
      // 24 ranks: 16 exchange, 8 fold and unfold.
      {{CollectiveKind::all_reduce, Algorithm::halving_doubling}, 3, 8, 2 * 15 + 2 * 8},
      {{CollectiveKind::all_reduce, Algorithm::hierarchical}, 4, 8, 2 * 31},
      {{CollectiveKind::all_reduce, Algorithm::parameter_server}, 4, 2, 2 * 7},
      {{CollectiveKind::all_to_all, Algorithm::direct}, 4, 2, 7},
  };
  for (const Expected& e : expected)
    for (const std::int64_t bytes : {std::int64_t{1} << 20, std::int64_t{1000003}}) {
      CAPTURE(word(e.one.kind), word(e.one.algorithm), e.nodes, e.per_node, bytes);
      const GroupShape shape = group_shape(cluster, block(cluster, e.nodes, e.per_node));
      const Collective request{.kind = e.one.kind, .bytes = Bytes{bytes}};
      const CollectiveChoice choice{.algorithm = e.one.algorithm, .server_shards = 3};
      const CollectiveCost cost = collective_cost(cluster, shape, request, choice);
      const Played played = play(*step_sequence(request, cost, shape, 3), cost, shape);
      if (e.one.kind == CollectiveKind::all_to_all)  // parts differ by a byte
        CHECK(std::fabs(static_cast<double>(played.bytes) - e.factor * double(bytes)) <= 64);
      else
        CHECK(played.bytes == static_cast<std::int64_t>(e.factor) * bytes);
    }
}

TEST_CASE("switches have no message sequence", "[collective]") {
  const GroupShape shape{.ranks = 8, .ranks_per_node = 8};
  REQUIRE_THROWS_WITH(step_sequence({}, {.algorithm = Algorithm::in_switch}, shape, 1),
                      "collective algorithm in_switch cannot do all_reduce here: the switches' "
                      "work is no sequence of messages");
}
