// Which nodes of a machine a job has: lists of them, draws, and the routes between them.
#include "sim/topology/allocation.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "cluster_files.hpp"
#include "sim/base/input_error.hpp"
#include "sim/topology/node_list.hpp"
#include "tests/catch.hpp"

namespace sim {
namespace {

using Names = std::vector<std::string>;
using Nodes = std::vector<int>;

Cluster leaves_of_four(int nodes, const std::string& more = "", const std::string& routing = "") {
  ClusterText text;
  text.nodes = nodes;
  text.fabric =
      "fabric:\n  kind: fat_tree\n  nodes_per_leaf: 4\n  oversubscription: 2\n  switch_latency: "
      "100 ns\n" +
      routing;
  text.more = more;
  return text.load();
}

std::string refusal_of_list(const std::string& list, const Cluster& cluster) {
  try {
    static_cast<void>(nodes_of_list(list, cluster));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "was read";
}

std::string refusal_of_file(int nodes, const std::string& names) {
  try {
    static_cast<void>(leaves_of_four(nodes, "node_names: " + names + "\n"));
  } catch (const InputError& error) {
    return error.what();
  }
  return "was read";
}

bool same_hops(const Route& a, const Route& b) {
  return a.latency == b.latency && a.kind == b.kind &&
         std::ranges::equal(a.hops, b.hops, [](const Hop& x, const Hop& y) {
           return x.link == y.link && x.share == y.share;
         });
}

TEST_CASE("a list of nodes is read as Slurm reads it", "[topology]") {
  CHECK(expand_node_list("node[3-5,9]") == Names{"node3", "node4", "node5", "node9"});
  CHECK(expand_node_list("gpu[008-010],login") == Names{"gpu008", "gpu009", "gpu010", "login"});
  CHECK(expand_node_list("r[1-2]n[0-1]") == Names{"r1n0", "r1n1", "r2n0", "r2n1"});
  CHECK(expand_node_list("3,1") == Names{"3", "1"});
  for (const char* wrong : {"", "node[", "node[3", "node[5-3]", "node[a]", "a,,b", "a;b", "node[]",
                            "node[0-999999]", "n[1-2", "n[1234567890]"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(expand_node_list(wrong), std::invalid_argument);
  }
  CHECK_THROWS_WITH(expand_node_list("node[5-3]"),
                    "list of nodes, column 9: the range ends at 3, before its start 5");
}

TEST_CASE("names become a list that is read as these names", "[topology]") {
  CHECK(node_list_of(Names{"node3", "node4", "node5", "node9"}) == "node[3-5,9]");
  CHECK(node_list_of(Names{"node9", "node10", "a", "node8"}) == "node[9-10],a,node8");
  CHECK(node_list_of(Names{"n09", "n10", "n8"}) == "n[09-10,8]");
  for (const char* text : {"node[3-5,9]", "gpu[008-010],login", "r[1-2]n[0-1]", "5,4,3", "a1b"})
    CHECK(expand_node_list(node_list_of(expand_node_list(text))) == expand_node_list(text));
}

TEST_CASE("nodes are called by their number, or by the names of the file", "[topology]") {
  const Cluster plain = leaves_of_four(16);
  CHECK(nodes_of_list("node[3-5],9", plain) == Nodes{3, 4, 5, 9});
  CHECK(plain.node_name(9) == "node9");
  CHECK(refusal_of_list("node16", plain).find("allowed: 0 to 15") != std::string::npos);
  CHECK(refusal_of_list("login", plain).find("number at the end") != std::string::npos);
  CHECK(refusal_of_list("node3,3", plain) == "\"3\" is node 3, which is there twice");

  const Cluster named = leaves_of_four(16, "node_names: gpu[101-116]\n");
  CHECK(nodes_of_list("gpu[103,101]", named) == Nodes{2, 0});
  CHECK(named.node_name(2) == "gpu103");
  CHECK(refusal_of_list("gpu117", named).find("gpu11") != std::string::npos);
  CHECK(refusal_of_file(16, "gpu[1-15]").find("15 names, 15 of them different") !=
        std::string::npos);
  CHECK(refusal_of_file(4, "\"a,b,a,c\"").find("4 names, 3 of them different") !=
        std::string::npos);
}

TEST_CASE("routes of an allocation are those of the machine between the same nodes", "[topology]") {
  for (const char* routing : {"", "  routing: hash\n", "  routing: hash\n  hash_flows: 3\n"}) {
    Cluster machine = leaves_of_four(16, "", routing);
    machine.apply({"node 9 nic 1", 0});
    const Nodes places{13, 2, 9, 3};
    const Cluster job = machine.with_nodes(places);
    REQUIRE(job.nodes() == 4);
    REQUIRE(job.machine_nodes() == 16);
    for (int a = 0; a < 4; ++a) {
      CHECK(job.node_as_built(a) == (places[static_cast<std::size_t>(a)] != 9));
      for (int b = 0; b < 4; ++b)
        for (const int local : {0, 1, 3}) {
          const int from = places[static_cast<std::size_t>(a)];
          const int to = places[static_cast<std::size_t>(b)];
          CHECK(same_hops(job.route(gpu(job, a, 1), gpu(job, b, local)),
                          machine.route(gpu(machine, from, 1), gpu(machine, to, local))));
        }
    }
  }
}

TEST_CASE("an allocation within one leaf uses no link of the fabric", "[topology]") {
  const Cluster machine = leaves_of_four(16);
  const Cluster job = machine.with_nodes({6, 4, 7});
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b)
      for (const Hop& hop : job.route(gpu(job, a, 0), gpu(job, b, 2)).hops)
        CHECK(job.link(hop.link).kind != LinkKind::fabric);
  CHECK(leaves_of(job) == 1);
  CHECK(allocation_text(job) == "3 of 16 nodes, at 1 leaf");
  CHECK(allocation_text(machine.with_nodes({3, 4})) == "2 of 16 nodes, at 2 leaves");
  CHECK(allocation_text(machine).empty());
}

TEST_CASE("drawn nodes are different, ascending, and those of the seed", "[topology]") {
  using enum AllocationKind;
  CHECK(draw_nodes({.node_list = {}, .kind = packed}, 3, 64) == Nodes{0, 1, 2});
  std::set<Nodes> seen;
  for (const AllocationKind kind : {random, fragmented})
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const NodeAllocation asked{.node_list = {}, .kind = kind, .occupancy = 0.75, .seed = seed};
      const Nodes nodes = draw_nodes(asked, 9, 64);
      CHECK(nodes.size() == 9);
      CHECK(std::ranges::adjacent_find(nodes, std::greater_equal<>{}) == nodes.end());
      CHECK(nodes.front() >= 0);
      CHECK(nodes.back() < 64);
      CHECK(draw_nodes(asked, 9, 64) == nodes);
      seen.insert(nodes);
    }
  CHECK(seen.size() > 35);
}

TEST_CASE("other jobs have at least the occupancy of a fragmented machine", "[topology]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const NodeAllocation asked{
        .node_list = {}, .kind = AllocationKind::fragmented, .occupancy = 0.75, .seed = seed};
    CHECK_THROWS_AS(draw_nodes(asked, 129, 512), std::invalid_argument);
    // Jobs of one node fill what larger ones leave.
    CHECK_NOTHROW(draw_nodes(asked, 115, 512));
  }
  CHECK_THROWS_AS(draw_nodes({}, 3, 2), std::invalid_argument);
  const Nodes all =
      draw_nodes({.node_list = {}, .kind = AllocationKind::fragmented, .occupancy = 0}, 512, 512);
  CHECK(all.back() == 511);
}

TEST_CASE("each node is drawn as often as any other", "[topology]") {
  std::vector<int> times(16);
  constexpr int draws = 4000;
  for (std::uint64_t seed = 1; seed <= draws; ++seed)
    for (const int node :
         draw_nodes({.node_list = {}, .kind = AllocationKind::random, .seed = seed}, 4, 16))
      ++times[static_cast<std::size_t>(node)];
  // A binomial count of p = 1/4: within 5 deviations.
  for (const int count : times)
    CHECK(std::abs(count - draws / 4) < 5 * std::sqrt(draws * 0.25 * 0.75));
}

TEST_CASE("the seed of the hash moves flows, and more flows spread them", "[topology]") {
  const auto most_share = [](const std::string& keys) {
    const Cluster cluster = leaves_of_four(16, "", "  routing: hash\n" + keys);
    std::uint32_t most = 0;
    for (const Hop& hop : cluster.route(gpu(cluster, 0, 0), gpu(cluster, 8, 0)).hops)
      if (cluster.link(hop.link).kind == LinkKind::fabric) most = std::max(most, hop.share);
    return most;
  };
  const auto path = [](const std::string& keys) {
    const Cluster cluster = leaves_of_four(16, "", "  routing: hash\n" + keys);
    std::vector<std::uint32_t> links;
    for (const Hop& hop : cluster.route(gpu(cluster, 0, 0), gpu(cluster, 8, 0)).hops)
      links.push_back(hop.link.value);
    return links;
  };
  CHECK(path("") == path("  hash_seed: 0\n  hash_flows: 1\n"));
  std::set<std::vector<std::uint32_t>> paths;
  for (int seed = 1; seed <= 40; ++seed)
    paths.insert(path("  hash_seed: " + std::to_string(seed) + "\n"));
  CHECK(paths.size() == 8);  // uplinks of a leaf: 4 nodes x 4 NICs at 2:1
  CHECK(most_share("") == 65536);
  CHECK(most_share("  hash_flows: 64\n") < 65536 / 2);
}

}  // namespace
}  // namespace sim
