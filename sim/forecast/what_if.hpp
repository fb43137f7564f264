// The step with one resource at a time infinitely fast: it shows what would help most.
#pragma once

#include "sim/base/control.hpp"
#include "sim/engine/simulator.hpp"
#include "sim/report/report.hpp"

namespace sim {

// Fills Report::what_if, the largest gain first, by simulating once per resource that the report's
// layout uses. `options`: those of the scenario. Throws Stopped.
void add_what_if(Report& report, const Simulator& simulator, const SimulationOptions& options,
                 const Control& control = {});

}  // namespace sim
