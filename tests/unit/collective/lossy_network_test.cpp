// Collectives and messages on a network that loses packets.
#include <algorithm>

#include "sim/collective/load_cluster.hpp"
#include "sim/topology/transport.hpp"
#include "tests/catch.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;

namespace {

Cluster lossy(const std::vector<Change>& changes) {
  return Cluster::load(sim::test::source_dir() + "/topologies/dgx-h100.yaml", 4,
                       {.cluster = changes, .device = {}});
}

CollectiveCost cost_on(const Cluster& cluster, CollectiveKind kind, Bytes bytes,
                       CollectiveChoice choice = {}, int nodes = 4) {
  choice.use_measured = false;
  return collective_cost(cluster, group_shape(cluster, block(cluster, nodes, 8)),
                         {.kind = kind, .bytes = bytes}, choice);
}

constexpr auto all_reduce = CollectiveKind::all_reduce;
constexpr CollectiveChoice ring{.algorithm = Algorithm::ring, .protocol = Protocol::simple};
const std::vector<Change> no_tail{{"transport.loss", "0.001"},
                                  {"transport.fabric_loss", "0"},
                                  {"transport.timeout", "1 ns"},
                                  {"transport.round_trip", "8.192 us"}};

}  // namespace

TEST_CASE("a ring between nodes gets what the transport leaves of its NICs", "[collective]") {
  const Cluster ideal = load("dgx-h100", 4);
  const Cluster cluster = lossy(no_tail);
  const double sends = farthest_path(cluster).sends;
  REQUIRE(sends > 1.1);
  CHECK(group_shape(cluster, block(cluster, 4, 8)) == group_shape(ideal, block(ideal, 4, 8)));
  const CollectiveCost before = cost_on(ideal, all_reduce, 1_GiB, ring);
  const CollectiveCost after = cost_on(cluster, all_reduce, 1_GiB, ring);
  CHECK_THAT(to_seconds(after.link_time), WithinRel(to_seconds(before.link_time) * sends, 1e-3));
  // The links carry what is sent again, so that other transfers get less of them.
  const auto members = block(cluster, 4, 8);
  const auto nic_share = [&](const Cluster& machine) {
    std::uint32_t most = 0;
    for (const Hop& hop : collective_pattern(machine, members, all_reduce, Algorithm::ring, 1))
      if (machine.link(hop.link).kind == LinkKind::nic) most = std::max(most, hop.share);
    return static_cast<double>(most);
  };
  CHECK_THAT(nic_share(cluster), WithinRel(nic_share(ideal) * sends, 1e-3));
}

TEST_CASE("groups within a node lose nothing", "[collective]") {
  const Cluster ideal = load("dgx-h100", 4);
  const Cluster cluster = lossy({{"transport.loss", "0.1"}});
  CHECK(seconds(cost_on(cluster, all_reduce, 1_GiB, {}, 1)) ==
        seconds(cost_on(ideal, all_reduce, 1_GiB, {}, 1)));
}

TEST_CASE("NCCL chooses as if nothing were lost", "[collective]") {
  const Cluster ideal = load("dgx-h100", 4);
  const Cluster cluster = lossy({{"transport.loss", "0.001"}});
  for (const Bytes bytes : {Bytes{65536}, 1_MiB, 16_MiB, 1_GiB}) {
    const CollectiveCost plain = cost_on(ideal, all_reduce, bytes);
    const CollectiveCost slow = cost_on(cluster, all_reduce, bytes);
    CHECK(slow.algorithm == plain.algorithm);
    CHECK(slow.protocol == plain.protocol);
    CHECK(slow.channels == plain.channels);
    CHECK(seconds(slow) > seconds(plain));
  }
}

TEST_CASE("a collective waits for the last packets of all its connections", "[collective]") {
  const auto latency = [](const char* timeout) {
    const Cluster cluster = lossy({{"transport.loss", "1e-6"}, {"transport.timeout", timeout}});
    return to_seconds(cost_on(cluster, all_reduce, 1_MiB, ring).latency);
  };
  const Cluster cluster = lossy({{"transport.loss", "1e-6"}});
  const CollectiveCost cost = cost_on(cluster, all_reduce, 1_MiB, ring);
  const double streams = 4.0 * cost.flows;          // each channel leaves each of four nodes
  const double loss = farthest_path(cluster).loss;  // all four are in one rail
  CHECK_THAT(latency("2 s") - latency("1 s"), WithinRel(expected_timeouts(loss, streams, 7), 1e-6));
}

TEST_CASE("a message between nodes waits for its last packets, too", "[collective]") {
  const Cluster ideal = load("dgx-h100", 4);
  const Cluster cluster = lossy({{"transport.loss", "0.01"}});
  const auto cost = [](const Cluster& machine, std::uint32_t to) {
    return transfer_cost(machine, machine.route(GpuId{0}, GpuId{to}), 64_MiB);
  };
  CHECK(cost(cluster, 1).latency == cost(ideal, 1).latency);
  const double tail = to_seconds(cost(cluster, 8).latency - cost(ideal, 8).latency);
  const PathQuality way = path_quality(cluster, cluster.route(GpuId{0}, GpuId{8}));
  CHECK_THAT(tail, WithinRel(to_seconds(transport_of(cluster).timeout) *
                                 expected_timeouts(way.loss, cost(ideal, 8).flows, 7),
                             1e-6));
  CHECK(cost(cluster, 8).transfer > cost(ideal, 8).transfer);
}

TEST_CASE("a window bounds what a NIC sends to a peer", "[collective]") {
  // 128 KiB in 8.192 us: 16 GB/s of each of 8 NICs, 128 of a node's 391.
  const Cluster cluster =
      lossy({{"transport.window", "128 KiB"}, {"transport.round_trip", "8.192 us"}});
  const CollectiveCost all = cost_on(cluster, all_reduce, 1_GiB, ring);
  CHECK_THAT(to_seconds(all.link_time), WithinRel(2 * 31.0 / 32 * (1 << 30) / 128e9, 1e-6));
  const CollectiveCost cost = transfer_cost(cluster, cluster.route(GpuId{0}, GpuId{8}), 1_GiB);
  CHECK(cost.rate.in_bytes_per_second() < 16e9);
  const Cluster ideal = load("dgx-h100", 4);
  const Cluster open = lossy({{"transport.window", "16 MiB"}});
  CHECK(seconds(cost_on(open, all_reduce, 1_GiB, ring)) ==
        seconds(cost_on(ideal, all_reduce, 1_GiB, ring)));
}

TEST_CASE("measured curves are scaled to the network that loses packets", "[collective]") {
  const std::string path = sim::test::source_dir() + "/topologies/aws-p5.yaml";
  const Cluster as_is = load_cluster(path, 2);
  const Cluster cluster =
      load_cluster(path, 2, {.cluster = {{"transport.loss", "1e-4"}}, .device = {}});
  REQUIRE(as_is.measured().size() == cluster.measured().size());
  bool between = false;
  for (std::size_t i = 0; i < as_is.measured().size(); ++i) {
    const MeasuredCurve& before = as_is.measured()[i];
    const MeasuredCurve& after = cluster.measured()[i];
    between = between || before.nodes > 1;
    if (before.nodes == 1)
      CHECK(after.points.back().time == before.points.back().time);
    else
      CHECK(after.points.back().time > before.points.back().time);
  }
  CHECK(between);
}
