// Groups of shipped clusters that the tests use.
#pragma once

#include <string>
#include <vector>

#include "sim/collective/collective_cost.hpp"
#include "tests/support/source_dir.hpp"

namespace collective_test {

inline sim::Cluster load(const std::string& name, int nodes) {
  return sim::Cluster::load(sim::test::source_dir() + "/topologies/" + name + ".yaml", nodes);
}

// The first `per_node` devices of each of the first `nodes` nodes.
inline std::vector<sim::GpuId> block(const sim::Cluster& cluster, int nodes, int per_node) {
  std::vector<sim::GpuId> members;
  for (int node = 0; node < nodes; ++node)
    for (int local = 0; local < per_node; ++local)
      members.push_back({static_cast<std::uint32_t>(node * cluster.gpus_per_node() + local)});
  return members;
}

inline double seconds(const sim::CollectiveCost& cost) {
  return sim::to_seconds(cost.latency + cost.transfer);
}

}  // namespace collective_test
