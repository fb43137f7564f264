// Whether every GPU of a cluster reaches every other.
#pragma once

#include <cstdint>

#include "sim/topology/cluster.hpp"

namespace sim {

// Walks the routes of every pair within node 0, and, both ways, of every GPU of node 0 and its like
// on each other node. Returns how many; throws std::runtime_error for a GPU that is not reached.
std::uint64_t check_routes(const Cluster& cluster);

}  // namespace sim
