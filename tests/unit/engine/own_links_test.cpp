#include "sim/engine/own_links.hpp"

#include <string>

#include "tests/catch.hpp"
#include "tests/unit/engine/hand_plan.hpp"

namespace sim {
namespace {

Plan two_reductions(int tensor, int data) {
  HandProgram program;
  const OpId first = program.collective(CollectiveKind::all_reduce, 64_MiB, GroupRole::tensor);
  program.collective(CollectiveKind::all_reduce, 64_MiB, GroupRole::data, {first});
  return hand_plan({program.program}, tensor, data);
}

bool shared(const System& system, LinkKind kind, const Cluster& cluster) {
  for (const Pattern& pattern : system.patterns)
    for (const ResourceUse& use : system.shared_uses_of(pattern))
      if (cluster.link(system.resources[use.resource].link).kind == kind) return true;
  return false;
}

}  // namespace

TEST_CASE("a link belongs to the only channel that uses it", "[engine]") {
  const Cluster cluster = load_cluster("dgx-a100-80", 4);
  // With the tensor groups of two nodes each NIC carries a ring, and one of each GPU beside it.
  System both = wire(two_reductions(16, 2), cluster, {});
  find_own_links(both);
  CHECK(shared(both, LinkKind::nic, cluster));
  CHECK_FALSE(shared(both, LinkKind::nvlink, cluster));
}

TEST_CASE("a link that its channel could over-ask is kept account of", "[engine]") {
  const Cluster cluster = load_cluster("dgx-h100", 1);
  System system = wire(two_reductions(8, 1), cluster, {});
  find_own_links(system);
  REQUIRE(system.patterns.size() == 1);
  REQUIRE(system.patterns[0].use_count > 1);
  CHECK(system.patterns[0].shared_count == 0);
  const std::uint32_t slow = system.uses_of(system.patterns[0])[1].resource;
  system.resources[slow].capacity /= 2;
  find_own_links(system);
  REQUIRE(system.patterns[0].shared_count == 1);
  CHECK(system.shared_uses_of(system.patterns[0])[0].resource == slow);
}

TEST_CASE("a link is busy while anything goes over it, shared or not", "[engine]") {
  const Cluster cluster = load_cluster("dgx-h100", 2);
  HandProgram program;
  const OpId reduce = program.collective(CollectiveKind::all_reduce, 64_MiB, GroupRole::tensor);
  program.collective(CollectiveKind::all_reduce, 64_MiB, GroupRole::tensor, {reduce});
  const Plan plan = hand_plan({program.program}, 8, 1);
  const Simulation result = simulate(plan, cluster, {.graphs = true});
  const System system = wire(plan, cluster, {});
  const CommCost& cost = system.cost(system.channels[0].shape, 0);
  REQUIRE_FALSE(result.timeline.links.empty());
  for (const LinkLoad& load : result.timeline.links)
    CHECK(load.busy == 2 * cost.transfer);
}

}  // namespace sim
