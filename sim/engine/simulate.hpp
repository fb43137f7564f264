// Simulates a Plan on a Cluster.
#pragma once

#include <cstdint>

#include "sim/base/control.hpp"
#include "sim/options/simulation_options.hpp"
#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

struct SimulationStats {
  std::uint64_t rank_classes = 0;  // simulated ranks
  std::uint64_t activities = 0;    // operators that took time
  std::uint64_t events = 0;
  std::uint64_t jumped_events = 0;  // events not simulated, but known from a period before
};

struct Simulation {
  Timeline timeline;
  SimulationStats stats;
};

// Places rank r on GPU r of the cluster. REQUIRES: plan.world_size() <= cluster.gpus().
// Throws InputError for a dtype the device lacks; std::runtime_error naming who waits for whom if
// the plan deadlocks; Stopped. To simulate a plan several times, use Simulator (simulator.hpp).
Simulation simulate(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                    const Control& control = {});

// As above, with a system from those kept where one serves (wirings.hpp): for many plans on one
// cluster.
class Wirings;
Simulation simulate(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                    Wirings& wirings, const Control& control = {});

}  // namespace sim
