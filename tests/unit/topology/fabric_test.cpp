#include <cmath>
#include <map>

#include "cluster_files.hpp"
#include "sim/base/random.hpp"
#include "sim/topology/paths.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

std::string fabric_text(const std::string& lines) {
  return "fabric:\n" + lines + "  switch_latency: 100 ns\n";
}

Cluster with_fabric(int nodes, const std::string& lines) {
  ClusterText text;
  text.nodes = nodes;
  text.fabric = fabric_text(lines);
  return text.load();
}

const std::string fat_tree =
    "  kind: fat_tree\n  levels: 3\n  nodes_per_leaf: 4\n"
    "  leaves_per_pod: 4\n  oversubscription: 2\n";
const std::string rails =
    "  kind: rail_optimised\n  levels: 3\n  nodes_per_leaf: 4\n"
    "  leaves_per_pod: 4\n";
const std::string dragonfly =
    "  kind: dragonfly\n  groups: 5\n  routers_per_group: 4\n"
    "  global_links_per_router: 2\n  nodes_per_router: 2\n";

// check_conserved(): as much enters each switch as leaves it, but at the ends.
void check_conserved(const Cluster& cluster, const std::vector<Hop>& hops, std::uint32_t from,
                     std::uint32_t to) {
  std::map<std::uint32_t, std::int64_t> balance;
  for (const Hop& hop : hops) {
    const FabricLink& link = cluster.data().fabric.links[hop.link.value];
    balance[link.from] -= hop.share;
    balance[link.to] += hop.share;
  }
  if (from != to) {
    CHECK(balance[from] == -65536);
    CHECK(balance[to] == 65536);
  }
  for (const auto& [place, net] : balance)
    if (place != from && place != to) CHECK(net == 0);
}

TEST_CASE("between sites every node shares one line", "[topology]") {
  const Cluster cluster =
      with_fabric(8, "  kind: sites\n  sites: 2\n  bandwidth: 10 Gbps\n  latency: 20 ms\n");
  const Route within = cluster.route(gpu(cluster, 0, 0), gpu(cluster, 3, 0));
  const Route between = cluster.route(gpu(cluster, 3, 0), gpu(cluster, 4, 0));
  CHECK(within.hops.size() + 2 == between.hops.size());
  CHECK(within.latency < Duration{1ms});
  CHECK(between.latency > Duration{20ms});
  CHECK(between.latency < Duration{21ms});
  // 10 Gb/s less the network's efficiency, which is 1 here.
  CHECK_THAT(between.bandwidth.in_bytes_per_second(), WithinRel(1.25e9));
  CHECK_THROWS(
      with_fabric(7, "  kind: sites\n  sites: 2\n  bandwidth: 10 Gbps\n  latency: 1 ms\n"));
}

TEST_CASE("rails that are separate are joined by NVLink alone", "[topology]") {
  for (const char* switches : {"", "  every_switch: true\n"}) {
    for (const char* levels : {"  levels: 2\n", "  levels: 3\n  leaves_per_pod: 4\n"}) {
      const std::string lines =
          std::string{"  kind: rail_optimised\n  nodes_per_leaf: 4\n"} + levels + switches;
      const Cluster joined = with_fabric(64, lines);
      const Cluster apart = with_fabric(64, lines + "  separate_rails: true\n");
      const Fabric& fabric = apart.data().fabric;
      std::vector<Hop> ignored;
      CHECK_FALSE(fabric.path(fabric.switch_of(0, 0), fabric.switch_of(20, 1), 0, ignored));
      for (const int node : {1, 4, 20})
        for (const int to : {0, 1, 3}) {
          const Route a = apart.route(gpu(apart, 0, 0), gpu(apart, node, to));
          const Route b = joined.route(gpu(joined, 0, 0), gpu(joined, node, to));
          CHECK(a.hops.size() == b.hops.size());
          CHECK(a.latency == b.latency);
          CHECK(a.bandwidth.in_bytes_per_second() == b.bandwidth.in_bytes_per_second());
        }
    }
  }
  CHECK_THROWS(with_fabric(64, fat_tree + "  separate_rails: true\n"));
}

TEST_CASE("in a fat tree routes climb to the common ancestor and no higher", "[topology]") {
  // 4 nodes per leaf, 4 leaves per pod: 64 nodes are 4 pods.
  const Cluster cluster = with_fabric(64, fat_tree);
  const auto fabric_hops = [&](int a, int b) {
    int hops = 0;
    for (const Hop& hop : cluster.route(gpu(cluster, a, 0), gpu(cluster, b, 0)).hops)
      hops += cluster.link(hop.link).kind == LinkKind::fabric;
    return hops;
  };
  CHECK(fabric_hops(0, 3) == 0);   // same leaf
  CHECK(fabric_hops(0, 4) == 2);   // same pod
  CHECK(fabric_hops(0, 16) == 4);  // through the core
  CHECK(names_of(cluster, cluster.route(gpu(cluster, 0, 0), gpu(cluster, 20, 0))) ==
        "node 0 gpu 0 -> pcie 0; node 0 pcie 0 -> nic 0; node 0 nic 0 -> leaf 0; "
        "leaf 0 -> spine 0 (x8); spine 0 -> core (x32); core -> spine 1 (x32); "
        "spine 1 -> leaf 5 (x8); node 20 leaf 5 -> nic 0; node 20 nic 0 -> pcie 0; "
        "node 20 pcie 0 -> gpu 0");
}

TEST_CASE("a 2:1 leaf has half as much capacity up as down", "[topology]") {
  const Cluster cluster = with_fabric(64, fat_tree);
  // Down: 4 nodes x 4 NICs x 50 GB/s = 800 GB/s; up: 400 GB/s.
  for (const FabricLink& link : cluster.data().fabric.links)
    if (cluster.data().fabric.switch_name(link.from).starts_with("leaf"))
      CHECK_THAT(link.link.capacity.in_bytes_per_second(), WithinRel(400e9));
}

TEST_CASE("spines one by one carry in sum what the bundle carries", "[topology]") {
  for (const std::string& kind : {fat_tree, rails}) {
    const Cluster bundled = with_fabric(64, kind);
    const Cluster single = with_fabric(64, kind + "  every_switch: true\n");
    CHECK(bundled.data().fabric.is_tree());
    CHECK(!single.data().fabric.is_tree());
    double sums[2] = {0, 0};
    for (const FabricLink& link : bundled.data().fabric.links)
      sums[0] += link.link.capacity.in_bytes_per_second();
    for (const FabricLink& link : single.data().fabric.links)
      sums[1] += link.link.capacity.in_bytes_per_second();
    CHECK_THAT(sums[0], WithinRel(sums[1]));
    for (const auto& [a, b] : {std::pair{0, 5}, {0, 16}, {3, 63}}) {
      const Route whole = bundled.route(gpu(bundled, a, 1), gpu(bundled, b, 1));
      const Route parts = single.route(gpu(single, a, 1), gpu(single, b, 1));
      CHECK(whole.latency == parts.latency);
      CHECK_THAT(whole.bandwidth.in_bytes_per_second(),
                 WithinRel(parts.bandwidth.in_bytes_per_second()));
    }
  }
}

TEST_CASE("on rails a message stays on the rail of the receiver", "[topology]") {
  const Cluster cluster = with_fabric(64, rails);
  SECTION("same GPU on both sides: one leaf, no NVLink") {
    CHECK(names_of(cluster, cluster.route(gpu(cluster, 0, 2), gpu(cluster, 3, 2))) ==
          "node 0 gpu 2 -> pcie 2; node 0 pcie 2 -> nic 2; node 0 nic 2 -> leaf 0.2; "
          "node 3 leaf 0.2 -> nic 2; node 3 nic 2 -> pcie 2; node 3 pcie 2 -> gpu 2");
  }
  SECTION("another GPU: over NVLink to the GPU of that rail first (PXN)") {
    CHECK(names_of(cluster, cluster.route(gpu(cluster, 0, 0), gpu(cluster, 3, 2)))
              .starts_with("node 0 gpu 0 -> nvswitch; node 0 nvswitch -> gpu 2; "
                           "node 0 gpu 2 -> pcie 2; node 0 pcie 2 -> nic 2; "
                           "node 0 nic 2 -> leaf 0.2; node 3 leaf 0.2"));
  }
  SECTION("another pod: through the spine block of the rail and the core") {
    const std::string names =
        names_of(cluster, cluster.route(gpu(cluster, 0, 3), gpu(cluster, 63, 3)));
    CHECK(names.find("leaf 0.3 -> spine 0.3 (x4); spine 0.3 -> core (x16); "
                     "core -> spine 3.3 (x16); spine 3.3 -> leaf 15.3 (x4)") != std::string::npos);
  }
}

TEST_CASE("the tree's climb and a search of the graph agree", "[topology]") {
  for (const std::string& kind : {fat_tree, rails}) {
    const Cluster cluster = with_fabric(61, kind);
    const Fabric& fabric = cluster.data().fabric;
    for (std::uint64_t i = 0; i < 200; ++i) {
      const int leaves = fabric.rails * 16;
      const auto a = static_cast<std::uint32_t>(mix64(2 * i) % static_cast<unsigned>(leaves));
      const auto b = static_cast<std::uint32_t>(mix64(2 * i + 1) % static_cast<unsigned>(leaves));
      std::vector<Hop> climbed;
      std::vector<Hop> searched;
      REQUIRE(fabric.path(a, b, 0, climbed));
      REQUIRE(fabric.searched_path(a, b, 0, searched));
      REQUIRE(climbed.size() == searched.size());
      for (std::size_t k = 0; k < climbed.size(); ++k)
        CHECK(climbed[k].link == searched[k].link);
    }
  }
}

TEST_CASE("in a torus the distance is the sum of the shorter ways round", "[topology]") {
  // An odd, an even and a two-router ring.
  const Cluster cluster = with_fabric(30, "  kind: torus\n  dims: [5, 3, 2]\n");
  const auto ring = [](int a, int b, int size) {
    const int way = std::abs(a - b);
    return std::min(way, size - way);
  };
  for (int a = 0; a < 30; ++a)
    for (int b = 0; b < 30; ++b) {
      std::vector<Hop> hops;
      const auto from = static_cast<std::uint32_t>(a);
      const auto to = static_cast<std::uint32_t>(b);
      REQUIRE(cluster.data().fabric.path(from, to, 0, hops));
      std::uint64_t travelled = 0;
      for (const Hop& hop : hops)
        travelled += hop.share;
      const int distance =
          ring(a % 5, b % 5, 5) + ring(a / 5 % 3, b / 5 % 3, 3) + ring(a / 15, b / 15, 2);
      CHECK(travelled == 65536U * static_cast<unsigned>(distance));
      check_conserved(cluster, hops, from, to);
    }
}

TEST_CASE("a torus has two links per router and dimension", "[topology]") {
  const Cluster cluster = with_fabric(30, "  kind: torus\n  dims: [5, 3, 2]\n");
  int cables = 0;
  for (const FabricLink& link : cluster.data().fabric.links)
    cables += link.bundled;
  // 30 routers x 3 dimensions x 2 directions; each cable is two directed links seen once each.
  CHECK(cables == 30 * 3 * 2);
}

TEST_CASE("dragonfly routes are at most local, global, local", "[topology]") {
  const Cluster cluster = with_fabric(40, dragonfly);
  const Fabric& fabric = cluster.data().fabric;
  // 4 routers x 2 global links reach 4 other groups twice.
  int global = 0;
  for (const FabricLink& link : fabric.links)
    global += link.weight == 3;
  CHECK(global == 5 * 4 * 2);
  for (std::uint32_t a = 0; a < 20; ++a)
    for (std::uint32_t b = 0; b < 20; ++b) {
      std::vector<Hop> hops;
      REQUIRE(fabric.path(a, b, 0, hops));
      std::uint64_t crossed = 0;
      std::uint64_t stayed = 0;
      for (const Hop& hop : hops)
        (fabric.links[hop.link.value].weight == 3 ? crossed : stayed) += hop.share;
      CHECK(crossed == (a / 4 == b / 4 ? 0U : 65536U));
      CHECK(stayed <= (a / 4 == b / 4 ? 65536U : 2 * 65536U));
      check_conserved(cluster, hops, a, b);
    }
}

TEST_CASE("hash routing takes one path, always the same, and flows differ", "[topology]") {
  const Cluster cluster = with_fabric(64, fat_tree + "  routing: hash\n");
  std::map<std::string, int> spines;
  for (int local = 0; local < 4; ++local)
    for (int node = 16; node < 32; ++node) {
      const Route route = cluster.route(gpu(cluster, 0, local), gpu(cluster, node, local));
      for (const Hop& hop : route.hops)
        CHECK(hop.share == 65536);
      CHECK(route.hops.size() == 10);
      const std::string names = names_of(cluster, route);
      CHECK(names ==
            names_of(cluster, cluster.route(gpu(cluster, 0, local), gpu(cluster, node, local))));
      ++spines[names.substr(names.find("leaf 0 -> spine"), 19)];
    }
  CHECK(spines.size() > 4);  // of 8
}

TEST_CASE("routes there and back are mirror images", "[topology]") {
  for (const std::string& kind :
       {fat_tree, rails, dragonfly, std::string("  kind: torus\n  dims: [4, 4, 3]\n")}) {
    const Cluster cluster = with_fabric(40, kind);
    for (std::uint64_t i = 0; i < 300; ++i) {
      const auto a = static_cast<std::uint32_t>(mix64(i) % static_cast<unsigned>(cluster.gpus()));
      const auto b = static_cast<std::uint32_t>(mix64(~i) % static_cast<unsigned>(cluster.gpus()));
      const Route there = cluster.route(GpuId{a}, GpuId{b});
      const Route back = cluster.route(GpuId{b}, GpuId{a});
      CHECK(there.hops.size() == back.hops.size());
      CHECK(there.kind == back.kind);
      CHECK(std::abs((there.latency - back.latency).count()) <= 100);
    }
  }
}

TEST_CASE("an over-subscription that asks for part of a cable is refused", "[topology]") {
  ClusterText text;
  text.fabric = fabric_text("  kind: fat_tree\n  nodes_per_leaf: 4\n  oversubscription: 3\n");
  REQUIRE_THROWS_WITH(text.load(),
                      "topology_test_cluster.yaml:12:9: error: a leaf needs 5.333 uplinks of 50 "
                      "GB/s for 800 GB/s down at 3:1; choose an over-subscription that gives a "
                      "whole number");
}

TEST_CASE("nodes that do not fit a torus are refused", "[topology]") {
  ClusterText text;
  text.nodes = 31;
  text.fabric = fabric_text("  kind: torus\n  dims: [5, 3, 2]\n");
  REQUIRE_THROWS_WITH(text.load(),
                      "topology_test_cluster.yaml:12:9: error: 31 nodes do not fit: "
                      "5 x 3 x 2 routers x 1 nodes per router = 30");
}

}  // namespace
}  // namespace sim
