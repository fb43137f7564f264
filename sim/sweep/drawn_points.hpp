// Points of a sweep whose nodes are drawn, or listed, whatever the scenario says of them.
#pragma once

#include <string>
#include <vector>

#include "sim/topology/allocation.hpp"

namespace sim {

// The overrides but for where the nodes are, with that many nodes.
std::vector<std::string> without_allocation(const std::vector<std::string>& overrides, int nodes);

// The same nodes in number, drawn. REQUIRES: allocation.is_drawn().
std::vector<std::string> drawn_point(const std::vector<std::string>& overrides, int nodes,
                                     const NodeAllocation& allocation);

}  // namespace sim
