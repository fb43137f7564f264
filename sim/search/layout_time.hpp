// The step time of a planned layout, and its parts, as a forecast has them.
#pragma once

#include "sim/base/control.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/engine/wirings.hpp"
#include "sim/timeline/step_shares.hpp"

namespace sim {

// LayoutParts are the parts that the step of a layout consists of.
struct LayoutParts {
  Breakdown breakdown;
  StepShares shares;
};

struct LayoutTime {
  Duration step{};  // some time beyond options.limit where it is longer; then there are no parts
  LayoutParts parts{};
};
// With groups that train apart: a step without a meeting and what meetings add to it on the mean
// (sim/forecast/meetings.hpp). With parameter servers: that of the mean worker
// (sim/forecast/servers.hpp), without a limit. Throws InputError where the cluster cannot hold the
// servers; Stopped.
LayoutTime time_layout(const Plan& plan, const Cluster& cluster, const SimulationOptions& options,
                       Wirings& wirings, const Control& control);

}  // namespace sim
