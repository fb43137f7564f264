// Prepared is what the executor looks up of the programs of a plan, on the devices that run them.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/cost_table.hpp"
#include "sim/engine/system.hpp"

namespace sim {

struct Prepared {
  std::vector<ProgramIndex> indexes;    // of each program on each pool that runs it
  std::vector<std::uint32_t> index_of;  // by variant
  std::vector<LaneCosts> lanes;         // by variant
};

// REQUIRES: `system` is of this plan on this cluster.
Prepared prepare(const Plan& plan, const Cluster& cluster, const System& system,
                 const SimulationOptions& options);

}  // namespace sim
