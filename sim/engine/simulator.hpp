// Simulates one plan on one cluster under several options: it is wired and folded once. Results are
// those of simulate(), to the picosecond.
#pragma once

#include "sim/engine/simulate.hpp"
#include "sim/engine/system.hpp"

namespace sim {

class Simulator {
 public:
  // Plan and cluster must outlive it. Throws as simulate() does.
  Simulator(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
            const Control& control = {});

  // Several threads may call it at once. Options that ask for another wiring (algorithms, faults,
  // stragglers, an unfolded run) are allowed and cost what simulate() costs.
  Simulation run(const SimulationOptions& options, const Control& control = {}) const;

 private:
  const Plan& plan_;
  const Cluster& cluster_;
  SimulationOptions options_;
  System system_;
};

}  // namespace sim
