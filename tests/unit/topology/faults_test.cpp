#include "cluster_files.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

Cluster rail_cluster() {
  ClusterText text;
  text.fabric = "fabric:\n  kind: rail_optimised\n  nodes_per_leaf: 4\n  switch_latency: 100 ns\n";
  return text.load();
}

TEST_CASE("a degraded NIC slows the routes through it and no other", "[topology]") {
  Cluster cluster = rail_cluster();
  cluster.apply({"node 3 nic 1", 0.5});
  CHECK_THAT(cluster.route(gpu(cluster, 0, 1), gpu(cluster, 3, 1)).bandwidth.in_bytes_per_second(),
             WithinRel(25e9));
  CHECK_THAT(cluster.route(gpu(cluster, 3, 1), gpu(cluster, 0, 1)).bandwidth.in_bytes_per_second(),
             WithinRel(25e9));
  CHECK_THAT(cluster.route(gpu(cluster, 3, 0), gpu(cluster, 0, 0)).bandwidth.in_bytes_per_second(),
             WithinRel(48e9));
  cluster.apply({"node 3 nic 1", 0.5});  // of what is left
  CHECK_THAT(cluster.route(gpu(cluster, 3, 1), gpu(cluster, 0, 1)).bandwidth.in_bytes_per_second(),
             WithinRel(12.5e9));
}

TEST_CASE("a dead NIC is avoided by its GPU", "[topology]") {
  Cluster cluster = rail_cluster();
  cluster.apply({"node 0 nic 1", 0});
  const std::string names =
      names_of(cluster, cluster.route(gpu(cluster, 0, 1), gpu(cluster, 2, 1)));
  CHECK(names.find("node 0 nic 1") == std::string::npos);
  CHECK(names.find("node 0 nic 0 -> leaf 0.0; leaf 0.0 -> spine (x4); spine -> leaf 0.1 (x4); "
                   "node 2 leaf 0.1 -> nic 1") != std::string::npos);
}

TEST_CASE("a dead NVLink port leaves PCIe", "[topology]") {
  Cluster cluster = rail_cluster();
  cluster.apply({"node 0 gpu 2 nvlink", 0});
  CHECK(cluster.route(GpuId{2}, GpuId{3}).kind == PathKind::pcie);
  CHECK(cluster.route(GpuId{0}, GpuId{2}).kind == PathKind::socket);
  CHECK(cluster.route(GpuId{0}, GpuId{1}).kind == PathKind::nvlink);
  CHECK(cluster.route(gpu(cluster, 1, 0), gpu(cluster, 1, 2)).kind == PathKind::nvlink);
}

TEST_CASE("one direction dies alone when it is named with its arrow", "[topology]") {
  Cluster cluster = rail_cluster();
  cluster.apply({"node 0 gpu 2 -> nvswitch", 0});
  CHECK(cluster.route(GpuId{2}, GpuId{3}).kind == PathKind::pcie);
  CHECK(cluster.route(GpuId{3}, GpuId{2}).kind == PathKind::nvlink);
}

TEST_CASE("a dead fabric link is avoided where there is another path", "[topology]") {
  ClusterText text;
  text.fabric =
      "fabric:\n  kind: fat_tree\n  nodes_per_leaf: 2\n  every_switch: true\n"
      "  switch_latency: 100 ns\n";
  Cluster cluster = text.load();
  const Route before = cluster.route(gpu(cluster, 0, 0), gpu(cluster, 7, 0));
  cluster.apply({"fabric leaf 0 -> spine 0", 0});
  const Route after = cluster.route(gpu(cluster, 0, 0), gpu(cluster, 7, 0));
  // 8 spines before, 7 after.
  CHECK(before.hops.size() == after.hops.size() + 2);
  CHECK(names_of(cluster, after).find("leaf 0 -> spine 0;") == std::string::npos);
  cluster.apply({"fabric spine 1", 0});
  CHECK(cluster.route(gpu(cluster, 0, 0), gpu(cluster, 7, 0)).hops.size() == after.hops.size() - 2);
}

TEST_CASE("a route that faults have cut is an input error", "[topology]") {
  Cluster cluster = rail_cluster();
  cluster.apply({"node 5", 0});
  REQUIRE_THROWS_WITH(cluster.route(gpu(cluster, 5, 0), gpu(cluster, 0, 1)),
                      "topology_test_cluster.yaml: error: no path is left from node 5 gpu 0 to "
                      "node 0 gpu 1: dead links cut it");
  CHECK(cluster.route(gpu(cluster, 5, 0), gpu(cluster, 5, 1)).kind == PathKind::nvlink);
}

TEST_CASE("a place that does not exist is answered with those that do", "[topology]") {
  Cluster cluster = rail_cluster();
  REQUIRE_THROWS_WITH(cluster.apply({"node 8 nic 1", 0}), "\"node 8 nic 1\": nodes are 0 to 7");
  REQUIRE_THROWS_WITH(
      cluster.apply({"fabric leaf 9", 0}),
      "no fabric link or switch \"leaf 9\"; the fabric has \"leaf 0.0\" to \"spine\", for "
      "example \"fabric leaf 0.0 -> spine\"");
  REQUIRE_THROWS_WITH(cluster.apply({"rack 1", 0}),
                      "\"rack 1\" names no link; places are \"node N nic N\", \"node N gpu N "
                      "nvlink\" and \"fabric NAME\"");
  REQUIRE_THROWS_WITH(cluster.apply({"node 1", 2}),
                      "\"node 1\": the factor is 2; allowed: 0 (dead) to 1");
  CHECK_THROWS_AS(cluster.apply({"node 1 nic 7", 0}), std::invalid_argument);
  CHECK_THROWS_AS(cluster.apply({"node 1x", 0}), std::invalid_argument);
}

TEST_CASE("every link can be named by its own name", "[topology]") {
  const Cluster reference = rail_cluster();
  for (std::uint32_t id = 0; id < reference.link_count(); ++id) {
    Cluster cluster = rail_cluster();
    const std::string name = cluster.link_name(LinkId{id});
    CAPTURE(name);
    const bool fabric = cluster.link(LinkId{id}).kind == LinkKind::fabric;
    cluster.apply({(fabric ? "fabric " : "") + name, 0.25});
    for (std::uint32_t other = 0; other < reference.link_count(); ++other)
      if ((cluster.link(LinkId{other}).capacity < reference.link(LinkId{other}).capacity) !=
          (other == id))
        FAIL_CHECK("also changed " << cluster.link_name(LinkId{other}));
  }
}

}  // namespace
}  // namespace sim
