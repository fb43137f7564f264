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

// machine_parameters() are those that the files have, in the order device, node, network. Throws
// InputError.
std::vector<MachineParameter> machine_parameters(const std::string& cluster_path,
                                                 const ClusterChanges& changes = {});

// The overrides with all keys of the parameter at `factor` times their values. What the overrides
// change of it by themselves is changed from there.
std::vector<std::string> scaled(const std::vector<std::string>& overrides,
                                const MachineParameter& parameter, double factor);

}  // namespace sim
