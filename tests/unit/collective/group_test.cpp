#include "tests/catch.hpp"
#include "tests/unit/collective/groups.hpp"

using namespace sim;
using namespace collective_test;

namespace {
double gbps(Bandwidth rate) {
  return rate.in_bytes_per_second() * 1e-9;
}

const Hop* find(const std::vector<Hop>& hops, LinkId link) {
  for (const Hop& hop : hops)
    if (hop.link == link) return &hop;
  return nullptr;
}
}  // namespace

TEST_CASE("a node of H100s has the bus bandwidth of its usable NVLinks", "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  const GroupShape shape = group_shape(cluster, block(cluster, 1, 8));
  CHECK(shape.ranks == 8);
  CHECK(shape.nodes == 1);
  CHECK(shape.nics_per_node == 0);
  CHECK(shape.intra == PathKind::nvlink);
  CHECK_THAT(gbps(shape.intra_bandwidth), WithinRel(18 * 20.6, 1e-9));
  CHECK(shape.ring_bandwidth == shape.intra_bandwidth);
  CHECK(shape.inter_bandwidth == Bandwidth{});
}

TEST_CASE("a ring over nodes leaves each of them by all the NICs that its members own",
          "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  for (const int per_node : {1, 2, 4, 8}) {
    const GroupShape shape = group_shape(cluster, block(cluster, 4, per_node));
    CAPTURE(per_node);
    CHECK(shape.nics_per_node == per_node);
    // One member's way out: the slower of its PCIe link and its NIC's payload.
    const GroupShape one = group_shape(cluster, block(cluster, 4, 1));
    CHECK_THAT(gbps(shape.inter_bandwidth), WithinRel(per_node * gbps(one.inter_bandwidth), 1e-3));
  }
}

TEST_CASE("members that share a NIC share its bandwidth", "[collective]") {
  const Cluster cluster = load("aws-p4d", 4);  // 4 NICs of 100 Gb/s for 8 GPUs
  const GroupShape all = group_shape(cluster, block(cluster, 2, 8));
  const GroupShape two = group_shape(cluster, block(cluster, 2, 2));
  CHECK(all.nics_per_node == 4);
  CHECK(two.nics_per_node == 1);
  CHECK_THAT(gbps(all.inter_bandwidth), WithinRel(4 * gbps(two.inter_bandwidth), 1e-3));
}

TEST_CASE("the order of members does not change a ring, only its message sequence",
          "[collective]") {
  const Cluster cluster = load("dgx-h100", 4);
  std::vector<GpuId> members = block(cluster, 4, 2);
  GroupShape straight = group_shape(cluster, members);
  std::swap(members[1], members[4]);
  GroupShape mixed = group_shape(cluster, members);
  CHECK(straight.contiguous);
  CHECK_FALSE(mixed.contiguous);
  mixed.contiguous = true;
  CHECK(mixed == straight);
  const Collective request{.bytes = 1_MiB};
  mixed.contiguous = false;
  const CollectiveCost cost = collective_cost(cluster, mixed, request, {});
  REQUIRE_THROWS_WITH(
      step_sequence(request, {.algorithm = Algorithm::ring}, mixed, 1),
      "collective algorithm ring cannot do all_reduce here: its messages are known only for "
      "members listed node by node, as many on each");
  CHECK(seconds(cost) > 0);
}

TEST_CASE("a mesh of NVLinks carries a ring on all links of a GPU", "[collective]") {
  // The 8-GPU V100 box: 6 links of 20 GB/s on every GPU, four of them among each four GPUs.
  const Cluster cluster = load("dgx1-v100", 2);
  CHECK_THAT(gbps(group_shape(cluster, block(cluster, 1, 8)).intra_bandwidth),
             WithinRel(120.0, 1e-4));
  CHECK_THAT(gbps(group_shape(cluster, block(cluster, 1, 4)).intra_bandwidth),
             WithinRel(80.0, 1e-4));
}

TEST_CASE("a ring counts how often it crosses a link itself", "[collective]") {
  // Two nodes on one torus column against a ring that must pass their links several times.
  const Cluster cluster = load("torus-3d-h100", 512);
  const GroupShape near = group_shape(cluster, block(cluster, 2, 8));
  const GroupShape line = group_shape(cluster, block(cluster, 4, 8));
  CHECK(line.ring_bandwidth <= near.ring_bandwidth);
  for (const GroupShape& shape : {near, line}) {
    const std::vector<GpuId> members = block(cluster, shape.nodes, 8);
    const auto hops =
        collective_pattern(cluster, members, CollectiveKind::all_reduce, Algorithm::ring, 1);
    double fullest = 0;
    for (const Hop& hop : hops)
      fullest = std::max(fullest, shape.ring_bandwidth.in_bytes_per_second() * hop.share / 65536 /
                                      cluster.link(hop.link).capacity.in_bytes_per_second());
    CHECK_THAT(fullest, WithinRel(1.0, 1e-12));
  }
}

TEST_CASE("within nodes a channel skips one edge, and across nodes it takes one NIC",
          "[collective]") {
  const Cluster cluster = load("dgx-h100", 2);
  const std::vector<GpuId> members = block(cluster, 2, 8);
  const auto hops =
      collective_pattern(cluster, members, CollectiveKind::all_reduce, Algorithm::ring, 1);
  for (int rank = 0; rank < 8; ++rank) {
    const Route inside = cluster.route({static_cast<std::uint32_t>(rank)},
                                       {static_cast<std::uint32_t>((rank + 1) % 8)});
    const Hop* port = find(hops, inside.hops.front().link);
    REQUIRE(port != nullptr);
    CHECK(port->share == 65536 * 7 / 8);
    const Route outside =
        cluster.route({static_cast<std::uint32_t>(rank)}, {static_cast<std::uint32_t>(rank + 8)});
    for (const Hop& hop : outside.hops) {
      if (cluster.link(hop.link).kind != LinkKind::nic) continue;
      const Hop* nic = find(hops, hop.link);
      REQUIRE(nic != nullptr);
      const double wire = 65536 / 8.0 / cluster.network().network_efficiency;
      CHECK(nic->share == static_cast<std::uint32_t>(wire));
    }
  }
}

// NVIDIA/nccl v2.30, src/init.cc: of the channels that each rank found, the fewest.
TEST_CASE("a ring over unequal nodes has the NICs of the smallest", "[collective]") {
  const Cluster cluster = load("dgx-h100", 2);
  std::vector<GpuId> members = block(cluster, 2, 8);
  const GroupShape whole = group_shape(cluster, members);
  members.resize(12);
  const GroupShape half = group_shape(cluster, members);
  members.resize(9);
  const GroupShape single = group_shape(cluster, members);
  CHECK_FALSE(half.uniform);
  CHECK(whole.nics_per_node == 8);
  CHECK(half.nics_per_node == 4);
  CHECK(single.nics_per_node == 1);
  CHECK_THAT(gbps(half.inter_bandwidth) / gbps(single.inter_bandwidth), WithinRel(4.0, 1e-3));
}

// 16 rings for 8 NICs (NVIDIA/nccl issue 518); a GPU alone has the two NICs of its PCIe switch and
// two rings, which those of the GPU beside it double. A message between nodes has two channels.
TEST_CASE("flows are the channels that pass a NIC", "[collective]") {
  const Cluster cluster = load("dgx-a100-80", 2);
  const auto flows_on_nic = [&](int per_node, Algorithm algorithm) {
    const std::vector<GpuId> members = block(cluster, 2, per_node);
    const CollectiveCost cost =
        collective_cost(cluster, group_shape(cluster, members), {.bytes = 1_GiB},
                        {.algorithm = algorithm, .protocol = Protocol::simple});
    for (const Hop& hop :
         collective_pattern(cluster, members, CollectiveKind::all_reduce, algorithm, 1))
      if (cluster.link(hop.link).kind == LinkKind::nic)
        return hop.share / 65536.0 * cluster.network().network_efficiency * cost.flows;
    return 0.0;
  };
  CHECK_THAT(flows_on_nic(8, Algorithm::ring), WithinRel(2.0, 1e-3));
  CHECK_THAT(flows_on_nic(1, Algorithm::ring), WithinRel(1.0, 1e-3));
  // Each of two nodes is the root of one tree and the leaf of the other: half of the channels send
  // up, half down.
  CHECK_THAT(flows_on_nic(8, Algorithm::tree), WithinRel(2.0, 1e-3));
  CHECK_THAT(flows_on_nic(1, Algorithm::tree), WithinRel(1.0, 1e-3));
  CHECK(transfer_cost(cluster, cluster.route({0}, {8}), 64_MiB).flows == 2);
}

TEST_CASE("no algorithm asks a link of a non-blocking cluster for more than it has",
          "[collective]") {
  const Collective request{.bytes = 1_GiB};
  for (const char* name : {"dgx-h100", "dgx-a100-80", "dgx-b200"}) {
    const Cluster cluster = load(name, 16);
    for (const int nodes : {1, 2, 3, 4, 7, 16})
      for (const int per_node : {1, 2, 8})
        for (const Algorithm algorithm :
             {Algorithm::ring, Algorithm::tree, Algorithm::halving_doubling,
              Algorithm::hierarchical, Algorithm::parameter_server, Algorithm::direct}) {
          if (nodes * per_node == 1) continue;
          // Two A100s below one PCIe switch share the way to the NICs of other rails.
          if (algorithm == Algorithm::direct && cluster.name() == "dgx-a100-80") continue;
          CAPTURE(name, nodes, per_node, word(algorithm));
          const std::vector<GpuId> members = block(cluster, nodes, per_node);
          Collective asked = request;
          if (algorithm == Algorithm::direct) asked.kind = CollectiveKind::all_to_all;
          const CollectiveCost cost =
              collective_cost(cluster, group_shape(cluster, members), asked,
                              {.algorithm = algorithm, .use_measured = false});
          const auto hops = collective_pattern(cluster, members, asked.kind, algorithm, 1);
          REQUIRE_FALSE(hops.empty());
          double worst = 0;
          for (std::size_t i = 0; i < hops.size(); ++i) {
            if (i > 0) REQUIRE(hops[i - 1].link < hops[i].link);
            const double used = cost.rate.in_bytes_per_second() * hops[i].share / 65536;
            worst =
                std::max(worst, used / cluster.link(hops[i].link).capacity.in_bytes_per_second());
          }
          CHECK(worst <= 1 + 1e-6);
        }
  }
}
