#include "cluster_files.hpp"
#include "sim/base/input_error.hpp"
#include "sim/topology/describe.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

// The message of the first problem.
std::string problem_of(const ClusterText& text) {
  try {
    text.load();
  } catch (const InputError& error) {
    const Problem& first = error.problems().front();
    return std::to_string(first.where.line) + ": " + first.what;
  }
  return "";
}

TEST_CASE("contradictions in a cluster file are refused where they stand", "[topology]") {
  ClusterText text;
  SECTION("usable above the data sheet") {
    text.node.replace(text.node.find("usable: 20"), 10, "usable: 26");
    CHECK(problem_of(text) == "7: usable is above rate, the data-sheet figure of one link");
  }
  SECTION("several nodes without a fabric") {
    text.fabric = "fabric:\n  kind: none\n";
    CHECK(problem_of(text) == "12: 8 nodes need a fabric and NICs");
  }
  SECTION("a curve whose sizes do not ascend") {
    text.more =
        "measured:\n  - {collective: all_reduce, ranks: 8, nodes: 1, source: x, points: [[2 MiB, "
        "10 us], [1 MiB, 20 us]]}\n";
    CHECK(problem_of(text) == "19: sizes must ascend");
  }
  SECTION("an unknown collective") {
    text.more =
        "measured:\n  - {collective: allreduce, ranks: 8, nodes: 1, source: x, points: []}\n";
    CHECK(problem_of(text) ==
          "19: collective is \"allreduce\"; allowed: all_reduce, reduce_scatter, all_gather, "
          "broadcast, reduce, all_to_all, send_receive");
  }
  SECTION("hash routing over bundled spines") {
    text.fabric =
        "fabric:\n  kind: fat_tree\n  nodes_per_leaf: 2\n  routing: hash\n  every_switch: false\n"
        "  switch_latency: 100 ns\n";
    CHECK(problem_of(text) == "15: routing by hash picks one spine, so every_switch must be true");
  }
  SECTION("a GPU that no PCIe group holds") {
    text.node.replace(text.node.find("switches: 4"), 11,
                      "layout: [{gpus: [0, 1, 2], nics: [0, 1, 2, 3]}]");
    CHECK(problem_of(text) == "8: GPU 3 is in no group");
  }
  SECTION("a pair of the mesh listed twice") {
    text.node = R"(node:
  kind: nvlink_mesh
  gpus: 2
  nvlink: {rate: 25 GB/s, latency: 600 ns, pairs: [[0, 1, 2], [1, 0, 2]]}
  pcie: {generation: 4, switches: 0, latency: 500 ns}
  sockets: {count: 1}
  nics: {count: 1, bandwidth: 100 Gbps, latency: 1 us}
)";
    CHECK(problem_of(text) == "7: GPUs 1 and 0 are listed twice");
  }
}

TEST_CASE("radix gives the sizes of leaves and pods", "[topology]") {
  ClusterText text;
  text.nodes = 1024;
  text.fabric =
      "fabric:\n  kind: rail_optimised\n  levels: 3\n  radix: 64\n"
      "  switch_latency: 100 ns\n";
  const Cluster cluster = text.load();
  CHECK(cluster.data().fabric.nodes_per_switch == 32);
  CHECK(cluster.data().fabric.shape ==
        "128 leaves of 32 nodes on 4 rails, 32 uplinks each (1:1), 4 spine blocks of 32 leaves "
        "(1:1)");
}

Bandwidth bisection(int nodes, const std::string& fabric) {
  ClusterText text;
  text.nodes = nodes;
  text.fabric = "fabric:\n" + fabric + "  switch_latency: 100 ns\n";
  return bisection_bandwidth(text.load());
}

TEST_CASE("bisection bandwidth has its closed form", "[topology]") {
  // Half of 64 nodes x 4 NICs x 50 GB/s.
  const double full = 32 * 200e9;
  const std::string tree =
      "  kind: fat_tree\n  levels: 3\n  nodes_per_leaf: 4\n"
      "  leaves_per_pod: 4\n";
  const auto value = [](Bandwidth rate) { return rate.in_bytes_per_second(); };
  CHECK_THAT(value(bisection(64, tree)), WithinRel(full));
  CHECK_THAT(value(bisection(64, tree + "  oversubscription: 2\n")), WithinRel(full / 2));
  CHECK_THAT(value(bisection(64, tree + "  pod_oversubscription: 4\n")), WithinRel(full / 4));
  CHECK_THAT(value(bisection(64, tree + "  oversubscription: 2\n  every_switch: true\n")),
             WithinRel(full / 2));
  CHECK_THAT(value(bisection(64, "  kind: flat\n")), WithinRel(full));
  CHECK_THAT(value(bisection(64, "  kind: flat\n  per_node_limit: 400 Gbps\n")),
             WithinRel(32 * 50e9));
  // k-ary 3-cube, k = 4: 2 k^2 links across the middle (Dally & Towles, section 5.2).
  CHECK_THAT(value(bisection(64, "  kind: torus\n  dims: [4, 4, 4]\n  link: 100 Gbps\n")),
             WithinRel(2 * 16 * 12.5e9));
}

TEST_CASE("describe names nodes, links, bisection and routes", "[topology]") {
  const std::string text = describe(ClusterText{}.load());
  for (const char* const part :
       {"test: 8 nodes x 4 ", "node: 4 gpu, 1 nvswitch, 4 pcie, 2 cpu, 4 nic\n",
        "fabric: flat, one switch\n",
        "  nvlink          64    360 GB/s     300 ns  node 0 gpu 0 -> nvswitch\n",
        "bisection bandwidth: 800 GB/s per direction\n",
        "  node 0 gpu 0 to node 0 gpu 1: nvlink, 360 GB/s, 600 ns\n"})
    CHECK(text.find(part) != std::string::npos);
}

TEST_CASE("the drawing of a node has every part and each link once", "[topology]") {
  const Cluster cluster = ClusterText{}.load();
  const std::string text = node_graphviz(cluster);
  std::size_t lines = 0;
  for (std::size_t at = text.find(" -- "); at != std::string::npos; at = text.find(" -- ", at + 1))
    ++lines;
  CHECK(lines == cluster.data().pools.front().node.links.size() / 2);
  for (const Part& part : cluster.data().pools.front().node.parts)
    CHECK(text.find('"' + part.name + '"') != std::string::npos);
}

}  // namespace
}  // namespace sim
