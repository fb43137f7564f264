// Clusters as tiers: no link is lost, none is drawn twice.
#include "sim/topology/graph.hpp"

#include <set>

#include "sim/config/data_files.hpp"
#include "tests/catch.hpp"

namespace {

using namespace sim;

TEST_CASE("each link of every shipped cluster is in one tier of the graph", "[topology]") {
  for (const std::string& name : data_files("topologies")) {
    CAPTURE(name);
    const Cluster cluster = Cluster::load(find_data_file("topologies", name));
    const TopologyGraph graph = topology_graph(cluster);
    std::set<std::uint32_t> seen;
    int twice = 0, of_another_kind = 0, out_of_range = 0;
    for (const LinkTier& tier : graph.links) {
      REQUIRE(tier.from < graph.parts.size());
      REQUIRE(tier.to < graph.parts.size());
      for (const LinkId link : tier.links) {
        const Link& of = cluster.link(link);
        twice += seen.insert(link.value).second ? 0 : 1;
        of_another_kind += of.kind == tier.kind ? 0 : 1;
        out_of_range += of.capacity < tier.least || of.capacity > tier.most ? 1 : 0;
      }
    }
    CHECK(twice == 0);
    CHECK(of_another_kind == 0);
    CHECK(out_of_range == 0);
    std::uint32_t nameless = 0;  // numbers of nodes with fewer links than others
    for (std::uint32_t link = 0; link < cluster.link_count(); ++link)
      nameless += cluster.link_name({link}).ends_with("no link") ? 1 : 0;
    CHECK(seen.size() == cluster.link_count() - nameless);
    CHECK((cluster.pools() > 1 || nameless == 0));
  }
}

TEST_CASE("tiers go from the core of the fabric to the GPUs, both directions side by side",
          "[topology]") {
  const Cluster cluster = Cluster::load(find_data_file("topologies", "dgx-h100"), 64);
  const TopologyGraph graph = topology_graph(cluster);
  std::vector<std::string> names;
  for (const LinkTier& tier : graph.links)
    names.push_back(graph.parts[tier.from].name + ">" + graph.parts[tier.to].name);
  REQUIRE(names.size() > 6);
  CHECK(names[0] == "spine>core");
  CHECK(names[1] == "core>spine");
  CHECK(names[2] == "leaf>spine");
  CHECK(names[4] == "nic>leaf");
  CHECK(names[5] == "leaf>nic");
  CHECK(names[names.size() - 2] == "gpu>nvswitch");
  CHECK(names.back() == "nvswitch>gpu");
  for (const PartTier& part : graph.parts)
    if (part.name == "gpu" || part.name == "nic") CHECK(part.count == 64 * 8);
}

}  // namespace
