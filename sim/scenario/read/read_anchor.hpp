// The measured runs that a scenario's forecast starts from, key simulation.anchor; and a scenario
// as the errors of its forecast see it.
#pragma once

#include "sim/scenario/layered.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/uncertainty/job_traits.hpp"

namespace sim {

// Reads scenario.anchor_path and sets the factors and the errors that follow from it. What does not
// go with the scenario is a problem of `simulation`. Throws InputError for the anchor's own file.
void add_anchor(const Layered& simulation, Scenario& scenario);

// Gives the scenario the factors that `errors`, anchored, has for it.
void set_factors(const TimeErrors& errors, Scenario& scenario);

JobTraits traits_of(const Scenario& scenario, const StepShares& shares);
// add_software_traits() says of a job's traits what its file says of the software: whether it names
// its framework, its preset, and settings that the forecast leaves out.
void add_software_traits(const Scenario& scenario, JobTraits& traits);

}  // namespace sim
