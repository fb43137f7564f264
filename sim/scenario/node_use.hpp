// How many GPUs of each node a job uses: the key cluster.gpus_per_node, or what keeps groups whole.
#pragma once

#include <string>

#include "sim/plan/whole_groups.hpp"
#include "sim/scenario/layered.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

NodeRoom room_of(const Cluster& cluster);

// NodeUse is what a scenario says of the GPUs of a node.
struct NodeUse {
  int gpus_per_node = 0;  // 0: nothing
  int gpus = 0;           // of the job; 0: all
};

// Sets the number on the cluster; without one in the file that of whole_gpus_per_node() for the
// layout, whose data_parallel counts if `has_data_parallel`. `layout` nullptr: it is still to be
// found, and all GPUs are used. Records problems at the section `cluster`.
void use_nodes(const NodeUse& use, const Layout* layout, bool has_data_parallel,
               const Layered& section, Cluster& cluster);

// As many nodes as a job takes whose layout is still to be found. Racks have room for groups of a
// power of two: 64 GPUs of 72.
int nodes_for(const NodeRoom& room, int gpus);

// "2 nodes of 8", "2 nodes with 64 of 72 GPUs in use".
std::string nodes_text(const Cluster& cluster);
// what_to_set() names the keys to set where a number of GPUs is wrong: "set cluster.nodes or
// cluster.gpus".
std::string what_to_set(const Cluster& cluster);
// whole_replicas_hint() is for racks: the number of GPUs per node with which replicas of `ranks`
// GPUs fill the cluster, as "; cluster.gpus_per_node: 64 would do". Empty: none, or no racks.
std::string whole_replicas_hint(const Cluster& cluster, std::int64_t ranks);

}  // namespace sim
