// A node whose GPUs are joined pair by pair with xGMI links.
#include "cluster_files.hpp"
#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

std::string mesh(const std::string& xgmi) {
  return "node:\n  kind: xgmi_mesh\n  gpus: 4\n  xgmi: " + xgmi +
         "\n  pcie: {generation: 5, switches: 4, latency: 500 ns}\n"
         "  sockets: {count: 2, bandwidth: 16 GB/s}\n"
         "  nics: {count: 4, bandwidth: 400 Gbps, latency: 300 ns}\n";
}

Cluster with(const std::string& xgmi) {
  ClusterText text;
  text.node = mesh(xgmi);
  return text.load();
}

TEST_CASE("in a mesh of xGMI every pair has a link of its own", "[topology]") {
  const Cluster cluster = with("{rate: 64 GB/s, usable: 48 GB/s, latency: 800 ns}");
  std::vector<int> links(4);
  for (const PartLink& link : cluster.data().pools.front().node.links)
    if (link.link.kind == LinkKind::xgmi) links[link.from] += link.bundled;
  CHECK(links == std::vector<int>(4, 3));
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b) {
      if (a == b) continue;
      const Route route = cluster.route(gpu(cluster, 1, a), gpu(cluster, 1, b));
      CHECK(route.kind == PathKind::xgmi);
      REQUIRE(route.hops.size() == 1);
      CHECK(cluster.link(route.hops[0].link).kind == LinkKind::xgmi);
      CHECK_THAT(route.bandwidth.in_bytes_per_second(), WithinRel(48e9));
    }
  CHECK(names_of(cluster, cluster.route(GpuId{1}, GpuId{3})) == "node 0 gpu 1 -> gpu 3");
}

TEST_CASE("a pair may have several xGMI links, at the data sheet's rate where no other is given",
          "[topology]") {
  const Cluster cluster = with("{links: 2, rate: 50 GB/s, latency: 800 ns}");
  CHECK_THAT(cluster.route(GpuId{0}, GpuId{1}).bandwidth.in_bytes_per_second(), WithinRel(100e9));
}

TEST_CASE("RCCL does not relay between rails: a message leaves by its own GPU's NIC",
          "[topology]") {
  const Cluster cluster = with("{rate: 64 GB/s, latency: 800 ns}");
  const Route route = cluster.route(gpu(cluster, 0, 1), gpu(cluster, 1, 2));
  for (const Hop& hop : route.hops)
    CHECK(cluster.link(hop.link).kind != LinkKind::xgmi);
}

TEST_CASE("a dead xGMI link is gone around through one other GPU", "[topology]") {
  Cluster cluster = with("{rate: 64 GB/s, latency: 800 ns}");
  cluster.apply({.where = "node 0 gpu 0 -> gpu 1", .factor = 0});
  const Route route = cluster.route(GpuId{0}, GpuId{1});
  CHECK(route.kind == PathKind::xgmi);
  CHECK(route.latency == Duration{std::chrono::nanoseconds{1600}});
  cluster.apply({.where = "node 0 gpu 0 xgmi", .factor = 0});
  CHECK(cluster.route(GpuId{0}, GpuId{1}).kind > PathKind::nvlink);
}

TEST_CASE("mistakes of an xGMI mesh name what is wrong", "[topology]") {
  CHECK_THROWS_AS(with("{rate: 48 GB/s, usable: 64 GB/s, latency: 800 ns}"), InputError);
  CHECK_THROWS_AS(with("{latency: 800 ns}"), InputError);
  CHECK_THROWS_AS(with("{rate: 48 GB/s, pairs: [[0, 1, 1]], latency: 800 ns}"), InputError);
}

}  // namespace
}  // namespace sim
