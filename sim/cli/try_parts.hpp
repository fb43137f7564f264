// Causes of a slow step, tried in the simulation.
#pragma once

#include "sim/explain/waterfall.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {

// try_parts() simulates the scenario again with each part of the step as slow as the trace has it,
// one at a time and then together, and fills in Waterfall::tried: what a part costs once overlap
// and waiting have done their work. The scenario is as before afterwards. Parts within 2 % of their
// forecast are left out.
void try_parts(Scenario& scenario, Waterfall& waterfall);

}  // namespace sim
