// How large the simulation of a step is where every rank is simulated by itself.
#pragma once

#include <cstdint>

#include "sim/engine/simulate.hpp"

namespace sim {

// folds tells whether one rank stands for all that are alike.
bool folds(const SimulationOptions& options);

// unfolded_activities: the operators of all ranks, and with stepwise collectives the messages of a
// ring for each. 0: the simulation folds.
std::uint64_t unfolded_activities(const Plan& plan, const SimulationOptions& options);

}  // namespace sim
