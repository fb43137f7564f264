// Execution traces as a plan: the simulator runs them on a cluster.
#pragma once

#include <string>
#include <vector>

#include "sim/chakra/run.hpp"
#include "sim/plan/plan.hpp"

namespace sim {

struct EtPlan {
  Plan plan;
  std::vector<std::string> notes;  // what was assumed, and for how many nodes
};

// plan_of makes a program of each rank. A node starts when those that it depends on are done.
// Compute takes the time of the trace, else that of its FLOPs and bytes on the device; collectives
// and messages are those of the cluster. Collectives of a communicator run one after another,
// those of different ones beside each other; nodes of the host run on the host. Throws InputError
// for what has no counterpart here: gathers and scatters, part of a network's dimensions, a rank
// that sends to more than two others, dependencies in a circle.
EtPlan plan_of(const EtRun& run);

}  // namespace sim
