// A cluster in words, for the `topo` command.
#pragma once

#include <string>

#include "sim/topology/cluster.hpp"

namespace sim {

// Nodes, links by kind with count, capacity and latency, bisection bandwidth, example routes.
std::string describe(const Cluster& cluster);

// The node template for Graphviz: `dot -Tsvg`. Links in both directions are drawn as one.
std::string node_graphviz(const Cluster& cluster);

// What the first half of the nodes (by number) can send to the second half at once, over NICs and
// fabric: the maximum flow, so no routing is assumed. Zero with fewer than two nodes.
Bandwidth bisection_bandwidth(const Cluster& cluster);

}  // namespace sim
