// The keys of a scenario that say where the nodes of its job are: cluster.node_list, and
// cluster.allocation.
#pragma once

#include <optional>

#include "sim/scenario/layered.hpp"
#include "sim/topology/allocation.hpp"

namespace sim {

// Nothing: the machine is as large as the job. `nodes`: cluster.nodes, which a list in the file has
// to have; of one set on top it may have more.
std::optional<NodeAllocation> read_allocation(const Layered& cluster, std::optional<int> nodes);

// Gives `nodes` nodes of the machine to the job, or those of its list where `nodes` is 0; of a
// longer list the first. Records what is wrong at the section `cluster`.
void allocate(const NodeAllocation& allocation, int nodes, const Layered& section,
              Cluster& machine);

}  // namespace sim
