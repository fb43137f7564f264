// A cluster with what-ifs, its measured curves carried over.
#pragma once

#include <optional>
#include <string>

#include "sim/topology/cluster.hpp"

namespace sim {

// The cluster of a file with `changes` made to its values. A curve that was measured on the machine
// of the file is scaled, at each of its sizes, by the formula's ratio of the changed machine to
// that of the file: a change of nothing changes nothing, and a small change little. A curve whose
// group the file's machine cannot form is left out. Cluster::sources() says both.
// Throws InputError.
Cluster load_cluster(const std::string& path, std::optional<int> nodes,
                     const ClusterChanges& changes = {});

}  // namespace sim
