// A plan as execution traces, for simulators that read Chakra (ASTRA-sim).
#pragma once

#include <string>
#include <vector>

#include "sim/options/simulation_options.hpp"
#include "sim/plan/plan.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

struct WrittenEt {
  std::size_t files = 0, nodes = 0;
  std::vector<std::string> notes;
};

// write_et writes FOLDER/NAME.RANK.et for every rank, and FOLDER/comm_groups.json with the ranks of
// each communicator. Nodes have the time of their kernel on the cluster, in whole microseconds that
// sum up as the picoseconds do, its FLOPs and bytes, and depend on what streams and dependencies of
// the plan say. A ring shift is a send and a receive. Throws std::runtime_error.
WrittenEt write_et(const std::string& folder, const std::string& name, const Plan& plan,
                   const Cluster& cluster, const SimulationOptions& options);

}  // namespace sim
