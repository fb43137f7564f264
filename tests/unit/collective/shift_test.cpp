#include "tests/catch.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;

namespace {

CollectiveCost shift_cost(const Cluster& cluster, const std::vector<GpuId>& members, Bytes bytes) {
  const Collective shift{CollectiveKind::ring_shift, GroupRole::context, DType::bf16, bytes};
  return collective_cost(cluster, group_shape(cluster, members), shift, {.use_measured = false});
}

// The share of the fullest link: 65536 carries the message once.
std::uint32_t fullest(const Cluster& cluster, const std::vector<GpuId>& members, LinkKind kind) {
  std::uint32_t most = 0;
  for (const Hop& hop :
       collective_pattern(cluster, members, CollectiveKind::ring_shift, Algorithm::direct, 1)) {
    if (cluster.link(hop.link).kind == kind)
      most = std::max(most, static_cast<std::uint32_t>(hop.share));
  }
  return most;
}

}  // namespace

TEST_CASE("a ring shift takes as long as the message between two neighbours", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const Bytes bytes = 64_MiB;
  SECTION("within a node, however many take part") {
    const CollectiveCost pair = transfer_cost(cluster, cluster.route({0}, {1}), 1_GiB);
    for (const int members : {2, 4, 8}) {
      const CollectiveCost shift = shift_cost(cluster, block(cluster, 1, members), 1_GiB);
      CHECK(shift.algorithm == Algorithm::direct);
      CHECK(shift.latency == pair.latency);
      CHECK_THAT(to_seconds(shift.transfer), WithinRel(to_seconds(pair.transfer), 1e-9));
    }
  }
  SECTION("small ones over fewer channels, the more take part") {
    // 32 channels by 8 ranks: 4, of 20.3 GB/s, while their parts are below 16 MiB.
    const CollectiveCost shift = shift_cost(cluster, block(cluster, 1, 8), 64_MiB);
    CHECK_THAT(to_seconds(shift.transfer), WithinRel(67108864 / (4 * 20.3e9), 1e-6));
  }
  SECTION("between nodes, each member over its own NIC") {
    const CollectiveCost pair = transfer_cost(cluster, cluster.route({0}, {8}), bytes);
    const CollectiveCost shift = shift_cost(cluster, block(cluster, 4, 1), bytes);
    CHECK(shift.latency == pair.latency);
    CHECK_THAT(to_seconds(shift.transfer), WithinRel(to_seconds(pair.transfer), 1e-3));
  }
  SECTION("over nodes with several members: the one crossing has one NIC") {
    const CollectiveCost one = shift_cost(cluster, block(cluster, 4, 1), bytes);
    const CollectiveCost two = shift_cost(cluster, block(cluster, 4, 2), bytes);
    CHECK_THAT(to_seconds(two.transfer), WithinRel(to_seconds(one.transfer), 1e-3));
  }
}

TEST_CASE("a ring shift loads every link of its routes once", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  CHECK(fullest(cluster, block(cluster, 1, 8), LinkKind::nvlink) >= 65536);
  // Neighbours in the order given, node by node or not.
  const std::vector<GpuId> alternating{{0}, {8}, {1}, {9}};
  const std::vector<GpuId> straight{{0}, {1}, {8}, {9}};
  const auto nics = [&](const std::vector<GpuId>& members) {
    std::size_t count = 0;
    for (const Hop& hop :
         collective_pattern(cluster, members, CollectiveKind::ring_shift, Algorithm::direct, 1))
      if (cluster.link(hop.link).kind == LinkKind::nic) ++count;
    return count;
  };
  CHECK(nics(straight) < nics(alternating));
}

TEST_CASE("the messages of a ring shift go to the next member", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const std::vector<GpuId> members = block(cluster, 2, 2);
  const GroupShape shape = group_shape(cluster, members);
  const Collective shift{CollectiveKind::ring_shift, GroupRole::context, DType::bf16, 1_MiB};
  const CollectiveCost cost = collective_cost(cluster, shape, shift, {});
  const auto steps = step_sequence(shift, cost, shape, 1);
  REQUIRE(steps->rounds() == 1);
  std::vector<StepSend> sends;
  steps->sends(3, 0, sends);
  REQUIRE(sends.size() == 1);
  CHECK(sends[0].to == 0);
  CHECK(sends[0].bytes == 1_MiB);
  CHECK(steps->receives(0, 0) == 1);
}
