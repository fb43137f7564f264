#include <set>

#include "cluster_files.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

using namespace sim::literals;

const char* const hybrid_cube_mesh = R"(node:
  kind: nvlink_mesh
  gpus: 8
  nvlink:
    rate: 25 GB/s
    usable: 20 GB/s
    latency: 600 ns
    pairs:
      [[0, 1, 1], [0, 2, 1], [0, 3, 2], [0, 4, 2], [1, 2, 2], [1, 3, 1], [1, 5, 2], [2, 3, 2],
       [2, 6, 1], [3, 7, 1], [4, 5, 1], [4, 6, 1], [4, 7, 2], [5, 6, 2], [5, 7, 1], [6, 7, 2]]
  pcie: {generation: 3, switches: 4, latency: 500 ns}
  sockets: {count: 2, bandwidth: 6 GB/s}
  nics: {count: 4, bandwidth: 100 Gbps, latency: 300 ns}
)";

const char* const pcie_box = R"(node:
  kind: pcie
  gpus: 8
  pcie: {generation: 4, switches: 4, latency: 500 ns}
  sockets: {count: 2, bandwidth: 16 GB/s}
  nics: {count: 1, bandwidth: 200 Gbps, latency: 300 ns}
)";

TEST_CASE("through an NVSwitch every pair is two hops of the whole port", "[topology]") {
  const Cluster cluster = ClusterText{}.load();
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b) {
      if (a == b) continue;
      const Route route = cluster.route(gpu(cluster, 2, a), gpu(cluster, 2, b));
      CHECK(route.kind == PathKind::nvlink);
      CHECK(route.hops.size() == 2);
      CHECK(route.latency == Duration{600ns});
      // 18 links x 20 GB/s.
      CHECK_THAT(route.bandwidth.in_bytes_per_second(), WithinRel(360e9));
    }
  CHECK(names_of(cluster, cluster.route(gpu(cluster, 3, 1), gpu(cluster, 3, 2))) ==
        "node 3 gpu 1 -> nvswitch; node 3 nvswitch -> gpu 2");
}

TEST_CASE("a GPU to itself is a copy in its memory: no hop, half the memory's bandwidth",
          "[topology]") {
  const Cluster cluster = ClusterText{}.load();
  const Route route = cluster.route(GpuId{5}, GpuId{5});
  CHECK(route.hops.empty());
  CHECK(route.kind == PathKind::same_device);
  CHECK(route.latency == Duration{});
  CHECK(route.bandwidth == cluster.device().memory_bandwidth * 0.5);
}

TEST_CASE("the hybrid cube mesh: six links on each GPU, at most one GPU between any two",
          "[topology]") {
  ClusterText text;
  text.node = hybrid_cube_mesh;
  const Cluster cluster = text.load();
  std::vector<int> links(8);
  for (const PartLink& link : cluster.data().pools.front().node.links)
    if (link.link.kind == LinkKind::nvlink) links[link.from] += link.bundled;
  CHECK(links == std::vector<int>(8, 6));
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b) {
      if (a == b) continue;
      const Route route = cluster.route(gpu(cluster, 0, a), gpu(cluster, 0, b));
      CHECK(route.kind == PathKind::nvlink);
      CHECK(route.latency <= Duration{1200ns});
    }
  SECTION("neighbours use their own links only") {
    const Route route = cluster.route(GpuId{0}, GpuId{3});
    CHECK(names_of(cluster, route) == "node 0 gpu 0 -> gpu 3");
    CHECK_THAT(route.bandwidth.in_bytes_per_second(), WithinRel(40e9));
  }
  SECTION("0 to 7 goes through 4 (2 + 2 links), not through 3 (2 + 1)") {
    CHECK(names_of(cluster, cluster.route(GpuId{0}, GpuId{7})) ==
          "node 0 gpu 0 -> gpu 4; node 0 gpu 4 -> gpu 7");
  }
  SECTION("0 to 5 splits evenly through 1 (1 + 2 links) and 4 (2 + 1): 2 x 20 GB/s") {
    const Route route = cluster.route(GpuId{0}, GpuId{5});
    REQUIRE(route.hops.size() == 4);
    for (const Hop& hop : route.hops)
      CHECK(hop.share == 32768);
    CHECK_THAT(route.bandwidth.in_bytes_per_second(), WithinRel(40e9));
    CHECK(route.latency == Duration{1200ns});
  }
}

TEST_CASE("PCIe paths widen from switch to socket", "[topology]") {
  ClusterText text;
  text.node = pcie_box;
  const Cluster cluster = text.load();
  const Route same_switch = cluster.route(GpuId{0}, GpuId{1});
  CHECK(same_switch.kind == PathKind::pcie);
  CHECK(same_switch.hops.size() == 2);
  // PCIe 4 x16 by NCCL's reckoning: 16 lanes x 120 / 80 = 24 GB/s.
  CHECK_THAT(same_switch.bandwidth.in_bytes_per_second(), WithinRel(24e9));
  const Route same_socket = cluster.route(GpuId{0}, GpuId{2});
  CHECK(same_socket.kind == PathKind::pcie);
  CHECK(same_socket.hops.size() == 4);
  const Route across = cluster.route(GpuId{0}, GpuId{7});
  CHECK(across.kind == PathKind::socket);
  CHECK(across.hops.size() == 5);
  CHECK_THAT(across.bandwidth.in_bytes_per_second(), WithinRel(16e9));
}

TEST_CASE("GPUs that share one NIC all leave through it", "[topology]") {
  ClusterText text;
  text.node = pcie_box;
  const Cluster cluster = text.load();
  for (int a = 0; a < 8; ++a) {
    const Route route = cluster.route(gpu(cluster, 0, a), gpu(cluster, 1, 7 - a));
    std::set<std::string> names;
    for (const Hop& hop : route.hops)
      names.insert(cluster.link_name(hop.link));
    CHECK(names.count("node 0 nic 0 -> switch") == 1);
    CHECK(names.count("node 1 switch -> nic 0") == 1);
  }
}

TEST_CASE("a GPU with four NICs of its own spreads over them", "[topology]") {
  ClusterText text;
  text.node = R"(node:
  kind: nvswitch
  gpus: 2
  nvlink: {links: 18, rate: 25 GB/s, latency: 300 ns}
  pcie: {generation: 5, switches: 2, latency: 500 ns}
  sockets: {count: 1}
  nics: {count: 8, bandwidth: 100 Gbps, latency: 1 us}
)";
  const Cluster cluster = text.load();
  const Route route = cluster.route(GpuId{0}, gpu(cluster, 1, 1));
  // Out and in: one PCIe hop of the GPU, four NICs, four ports.
  REQUIRE(route.hops.size() == 18);
  std::uint32_t ports = 0;
  for (const Hop& hop : route.hops)
    if (cluster.link(hop.link).kind == LinkKind::nic) {
      CHECK(hop.share == 16384);
      ports += hop.share;
    }
  CHECK(ports == 2 * 65536);
  // PCIe 5 x16 limits (48 GB/s), not the NICs (4 x 12.5 GB/s).
  CHECK_THAT(route.bandwidth.in_bytes_per_second(), WithinRel(48e9));
  // 2 x (2 PCIe hops) + 2 NICs + 1 switch.
  CHECK(route.latency == Duration{4 * 500ns + 2 * 1us + 100ns});
}

TEST_CASE("an NVL72 rack is one node of 72 GPUs, each with the NICs of its tray", "[topology]") {
  const Cluster cluster = Cluster::load("topologies/gb200-nvl72.yaml");
  CHECK(cluster.gpus_per_node() == 72);
  CHECK(cluster.network().nics_per_node == 72);
  CHECK(cluster.route(GpuId{0}, GpuId{71}).kind == PathKind::nvlink);
  CHECK(cluster.data().pools.front().routes.near[41] == std::vector<int>{40, 41});
}

TEST_CASE("a limit for the whole node is one link that all its NICs share", "[topology]") {
  ClusterText text;
  text.fabric = "fabric:\n  kind: flat\n  per_node_limit: 800 Gbps\n  switch_latency: 100 ns\n";
  const Cluster cluster = text.load();
  const std::string names = names_of(cluster, cluster.route(GpuId{0}, gpu(cluster, 1, 0)));
  CHECK(names.find("node 0 nic 0 -> uplink; node 0 uplink -> switch; node 1 switch -> uplink") !=
        std::string::npos);
}

}  // namespace
}  // namespace sim
