// The section `simulation` of a scenario.
#pragma once

#include <vector>

#include "sim/options/simulation_options.hpp"
#include "sim/scenario/layered.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// The entries of simulation.stragglers and simulation.faults, kept with their place for checks that
// need the cluster.
struct Trouble {
  std::vector<ValueReader> straggler_ranks;
  std::vector<ValueReader> fault_places;
  std::vector<LinkFault> faults;
};

// read_simulation() records each problem at the key that has it.
Trouble read_simulation(const Layered& section, SimulationOptions& options);

// Ranks and links that there are not, of a job on so many GPUs; what is right takes hold of the
// cluster.
void apply_trouble(const Trouble& trouble, const SimulationOptions& options, int gpus,
                   Cluster& cluster);

}  // namespace sim
