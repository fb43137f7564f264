// Which groups of a layout lie on one node (an NVLink domain: a server, or an NVL72 rack), by how
// many GPUs of each node are used. Ranks fill the nodes in order, as many on each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/plan.hpp"

namespace sim {

// The nodes that a layout is put on.
struct NodeRoom {
  int gpus = 1;   // of a node
  int trays = 1;  // of a node: the hosts that share its NVSwitch
  int nodes = 1;  // that there are
};

// Groups of one role. Each lies whole within `block` ranks in a row that begin at a multiple of it,
// and of any smaller block some do not.
struct GroupBlock {
  GroupRole role = GroupRole::tensor;
  std::int64_t ranks = 1;  // of a group
  std::int64_t block = 1;
};

// Tensor, expert-tensor, context, expert and shard groups of two ranks or more, in this order:
// those first that communicate most often. `shard` are those of hybrid sharding; else `data` are
// all ranks with the same parameters, whose gradients are reduced together.
std::vector<GroupBlock> group_blocks(const Layout& layout);

// How many GPUs of a node to use: the largest number for which every group that fits on a node lies
// on one. Groups that exclude each other: the first of group_blocks() wins. Data and shard groups
// count only as far as whole trays stay in use, since nobody leaves GPUs of a server idle for them.
// All GPUs where the layout fits on one node, or where fewer per node would need more nodes than
// there are. `world`: how many ranks there are to place; 0: as many as the nodes have room for, so
// that data groups follow from the answer and do not count.
int whole_gpus_per_node(const Layout& layout, const NodeRoom& room, int world);

// Whether so many GPUs per node keep every group whole that fits on a node.
bool keeps_groups_whole(const Layout& layout, const NodeRoom& room, int gpus_per_node);

// GPUs per node for racks: as few racks as with `gpus_per_node`, but all filled alike, with whole
// trays, and without tearing a group that was whole. `gpus_per_node` where that does not go. Groups
// over racks that hold unequal numbers of their ranks communicate through a NIC per rack.
int even_gpus_per_node(const Layout& layout, const NodeRoom& room, int gpus_per_node);

// Groups that lie on several nodes although a node could hold each, in some order of the ranks.
struct CrossingGroups {
  GroupRole role = GroupRole::tensor;
  int ranks = 1;       // of a group
  int groups = 0;      // in all
  int crossing = 0;    // groups on several nodes
  int nodes = 0;       // the most that one lies on
  std::string remedy;  // a setting that helps: "cluster.gpus_per_node: 64"
};
std::vector<CrossingGroups> crossing_groups(const Plan& plan, const NodeRoom& room,
                                            int gpus_per_node);
// "1 of 4 expert groups (32 ranks) cross nodes of 72 GPUs; set cluster.gpus_per_node: 64"
std::string describe(const CrossingGroups& groups, const NodeRoom& room);

}  // namespace sim
