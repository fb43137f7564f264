// Allocations: which nodes of a machine a job has, in the order of its ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// packed: the first nodes. random: any nodes, each as likely as any other. fragmented: what other
// jobs leave free.
enum class AllocationKind : std::uint8_t { packed, random, fragmented };
constexpr auto words_of(AllocationKind) {
  return std::array{Word{AllocationKind::packed, "packed"}, Word{AllocationKind::random, "random"},
                    Word{AllocationKind::fragmented, "fragmented"}};
}

struct NodeAllocation {
  std::string node_list;  // a host list (node_list.hpp); empty: the nodes are drawn
  AllocationKind kind = AllocationKind::packed;
  double occupancy = 0;  // of a fragmented machine: the share of its nodes that other jobs have
  std::uint64_t seed = 1;
  bool is_drawn() const { return node_list.empty(); }
  bool operator==(const NodeAllocation&) const = default;
};

// The nodes that a list names: by the names of the cluster's file, or without any by the number at
// the end of a name, from 0. Throws std::invalid_argument for a name that the machine has not, or
// that stands there twice.
std::vector<int> nodes_of_list(const std::string& list, const Cluster& machine);

// `nodes` nodes of a machine of `all`, ascending. A fragmented machine was full of jobs, one behind
// the other, of 1, 2, 4, ... nodes up to a quarter of the machine, each size as likely as any
// other; then jobs ended at random until the occupancy was left. The sizes are an assumption, not a
// measurement. Throws std::invalid_argument where too few nodes are free.
std::vector<int> draw_nodes(const NodeAllocation& allocation, int nodes, int all);

// The switch that a node of the machine hangs at: of all its rails where there are several.
int leaf_of(const Cluster& cluster, int place);
// How many of them the job's nodes hang at.
int leaves_of(const Cluster& cluster);

// "8 of 64 nodes, at 4 leaves". Empty where the job has the whole machine.
std::string allocation_text(const Cluster& cluster);

}  // namespace sim
