// The measured runs that a scenario's forecast starts from: key simulation.anchor.
#pragma once

#include "sim/scenario/layered.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {

// Reads scenario.anchor_path and sets the factors and the errors that follow from it. What does not
// go with the scenario is a problem of `simulation`. Throws InputError for the anchor's own file.
void add_anchor(const Layered& simulation, Scenario& scenario);

}  // namespace sim
