// Clusters, devices and imported nodes in words, for the `topo` and `import` commands.
#pragma once

#include <string>

#include "sim/topology/cluster.hpp"
#include "sim/topology/import/import.hpp"

namespace sim {

// Nodes, links by kind with count, capacity and latency, bisection bandwidth, example routes.
std::string describe(const Cluster& cluster);

// SMs, memory, dense peak per dtype, origin of the figures.
std::string describe(const Device& device);

// Parts, links, NICs, warnings and notes of the node in the file `path`, and the line of a cluster
// file that uses it.
std::string describe(const ImportedNode& imported, const std::string& path);

// The node template for Graphviz: `dot -Tsvg`. Links in both directions are drawn as one.
std::string node_graphviz(const Cluster& cluster);

// The rate at which the first half of the nodes (by number) can send to the second half at once,
// over NICs and fabric: the maximum flow, so no routing is assumed. Zero with fewer than two nodes.
Bandwidth bisection_bandwidth(const Cluster& cluster);

}  // namespace sim
