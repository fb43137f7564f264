// Values of the cluster and the device file that do not move a step, and what bounds it instead.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/control.hpp"
#include "sim/report/report.hpp"

namespace sim {

// Why a change of this key leaves the step as it is: "PCIe's 48 GB/s bounds it". `key` as --set
// names it: "cluster.change.node.nics.bandwidth", "cluster.device.memory".
// REQUIRES: the step has been found not to depend on it.
std::string why_unmoved(const Scenario& scenario, const Plan& plan, std::string_view key);

// Report::unmoved: every change of the scenario without which the step takes as long.
// Simulates once per change. Throws Stopped.
void note_unmoved(Report& report, const Scenario& scenario, const Plan& plan,
                  const Control& control = {});

}  // namespace sim
