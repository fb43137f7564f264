#include "sim/collective/nccl_tuning.hpp"
#include "tests/catch.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;

namespace {
CollectiveCost automatic(const Cluster& cluster, int nodes, int per_node, CollectiveKind kind,
                         Bytes bytes) {
  return collective_cost(cluster, group_shape(cluster, block(cluster, nodes, per_node)),
                         {.kind = kind, .bytes = bytes}, {.use_measured = false});
}
}  // namespace

TEST_CASE("NCCL's search finds the channels that its logs show", "[collective]") {
  struct Preset {
    const char* cluster;
    int nodes;
    int channels;
    double speed;
    int blocks;
  };
  // Single nodes: GRAPH lines "nChannels 12, bw 20/20" on A100 and "12, 30/30" on H100 (NCCL issue
  // 1197); the others derived from src/graph/search.cc and connect.cc v2.30.
  for (const Preset& preset : {Preset{"dgx-a100-80", 1, 12, 20, 24},
                               {"dgx-h100", 1, 12, 30, 24},
                               {"dgx-b200", 1, 16, 45, 32},
                               {"dgx-a100-80", 4, 8, 24, 16},
                               {"dgx-h100", 4, 8, 48, 16}}) {
    const Cluster cluster = load(preset.cluster, 4);
    const NcclGroup group =
        nccl_group(cluster, group_shape(cluster, block(cluster, preset.nodes, 8)));
    CAPTURE(preset.cluster, preset.nodes);
    CHECK(group.channels == preset.channels);
    CHECK(group.channel_bw == preset.speed);
    CHECK(group.blocks == preset.blocks);
  }
}

TEST_CASE("on one H100 node NCCL goes from ring/LL to NVLS/Simple between 1 and 2 MiB",
          "[collective]") {
  const Cluster cluster = load("dgx-h100", 1);
  const CollectiveCost small = automatic(cluster, 1, 8, CollectiveKind::all_reduce, 1_MiB);
  CHECK(small.algorithm == Algorithm::ring);
  CHECK(small.protocol == Protocol::ll);
  const CollectiveCost large = automatic(cluster, 1, 8, CollectiveKind::all_reduce, 2_MiB);
  CHECK(large.algorithm == Algorithm::in_switch);
  CHECK(large.protocol == Protocol::simple);
  // Its gathers stay on the ring: NVLS moves as much through each port.
  CHECK(automatic(cluster, 1, 8, CollectiveKind::all_gather, 1_GiB).algorithm == Algorithm::ring);
}

TEST_CASE("over many nodes NCCL goes from tree to ring as sizes grow", "[collective]") {
  const Cluster cluster = load("dgx-a100-80", 64);
  bool ring_seen = false;
  for (int shift = 3; shift <= 34; ++shift) {
    const CollectiveCost cost =
        automatic(cluster, 16, 8, CollectiveKind::all_reduce, Bytes{std::int64_t{1} << shift});
    const bool ring = cost.algorithm == Algorithm::ring;
    CAPTURE(shift);
    CHECK((ring || !ring_seen));  // it never goes back
    ring_seen = ring_seen || ring;
    if (shift <= 20) CHECK(cost.algorithm == Algorithm::tree);
  }
  CHECK(ring_seen);
}

TEST_CASE("NCCL's estimates are its formulas", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const NcclGroup node = nccl_group(cluster, group_shape(cluster, block(cluster, 1, 8)));
  const auto ar = CollectiveKind::all_reduce;
  // Ring LL: 6.6 + 14 * 0.6 us, and 2 * 7/8 n over min(141, 360/2) GB/s.
  CHECK_THAT(nccl_estimate(node, ar, Algorithm::ring, Protocol::ll, 1e6),
             WithinRel(15.0 + 1e6 * 14 / 8 / 141e3, 1e-9));
  // NVLS: 25 us, and 16 channels of 20 GB/s * 0.85 * 15/16 * 2.
  CHECK_THAT(nccl_estimate(node, ar, Algorithm::in_switch, Protocol::simple, 1e6),
             WithinRel(25.0 + 1e6 * 14 / 8 / (16e3 * 20 * 0.85 * 15 / 16 * 2), 1e-9));
  const NcclGroup four = nccl_group(cluster, group_shape(cluster, block(cluster, 4, 8)));
  // Tree LL over 4 nodes: 6.8 + 2 (7 * 0.6 + 2 * 5) us.
  CHECK_THAT(nccl_estimate(four, ar, Algorithm::tree, Protocol::ll, 64), WithinRel(35.2, 1e-3));
  CHECK(std::isinf(
      nccl_estimate(four, CollectiveKind::broadcast, Algorithm::tree, Protocol::simple, 1e6)));
}

TEST_CASE("LL128 needs NVLink within the node unless it is asked for", "[collective]") {
  const Cluster cluster = load("a100-pcie", 2);
  for (int shift = 10; shift <= 30; ++shift)
    CHECK(automatic(cluster, 1, 8, CollectiveKind::all_reduce, Bytes{std::int64_t{1} << shift})
              .protocol != Protocol::ll128);
  const GroupShape shape = group_shape(cluster, block(cluster, 1, 8));
  CHECK(collective_cost(cluster, shape, {.bytes = 1_MiB}, {.protocol = Protocol::ll128}).protocol ==
        Protocol::ll128);
}

TEST_CASE("an all-to-all is made of pairwise messages", "[collective]") {
  const Cluster cluster = load("dgx-h100", 2);
  CHECK(automatic(cluster, 2, 8, CollectiveKind::all_to_all, 1_MiB).algorithm == Algorithm::direct);
  REQUIRE_THROWS_WITH(
      collective_cost(cluster, group_shape(cluster, block(cluster, 2, 8)),
                      {.kind = CollectiveKind::all_to_all, .bytes = 1_MiB},
                      {.algorithm = Algorithm::ring}),
      "collective algorithm ring cannot do all_to_all here: NCCL sends pairwise messages (direct)");
}
