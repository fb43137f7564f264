// Clusters of pools: nodes of one kind each, on one fabric.
#pragma once

#include <span>

#include "sim/topology/cluster_data.hpp"

namespace sim {

// read_pools() reads a cluster file that has `pools`: each is a number of nodes as another cluster
// file describes them, with device, network, host and measured curves. The fabric is this file's.
// Throws InputError.
Cluster::Data read_pools(const Document& document, std::optional<int> nodes,
                         const ClusterFiles& files);

}  // namespace sim
