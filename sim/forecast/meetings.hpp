// The time that meetings of groups that train apart add to a step (Layout::local_steps).
#pragma once

#include "sim/base/control.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/report/report.hpp"

namespace sim {

// Simulates every fragment's meeting, with the steps that it reaches over, beside as many steps
// without. REQUIRES: plan.layout.trains_apart().
MeetingTimes simulate_meetings(const Plan& plan, const Cluster& cluster,
                               const SimulationOptions& options, const Control& control);

}  // namespace sim
