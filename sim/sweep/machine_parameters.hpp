// The parameters of a cluster and its device that a what-if may scale.
#pragma once

#include <string>
#include <vector>

#include "sim/topology/cluster.hpp"

namespace sim {

struct MachineParameter {
  std::string name;                 // "NIC bandwidth"
  std::vector<std::string> keys;    // of --set: "cluster.change.node.nics.bandwidth"
  std::vector<std::string> values;  // of each, as the files say, or the what-ifs of the scenario
};

// Those that the files have, in the order device, node, network. Throws InputError.
std::vector<MachineParameter> machine_parameters(const std::string& cluster_path,
                                                 const ClusterChanges& changes = {});

}  // namespace sim
