// The what-ifs of a scenario: `cluster.change` and `cluster.device`.
#pragma once

#include "sim/scenario/layered.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// Nested sections become dotted keys; what --set says of a key stands in for what the file says.
ClusterChanges read_changes(const Layered& cluster);

}  // namespace sim
