// The systems of several jobs as one: their ranks side by side, the links of the machine shared.
#pragma once

#include <span>

#include "sim/engine/system.hpp"

namespace sim {

struct JobSystem {
  System system;                     // not folded
  const Cluster* cluster = nullptr;  // it was wired on
};

// Programs, variants and rows of costs are numbered one job after another; a link is one resource
// for all. REQUIRES: parts of one machine.
System joined(std::span<const JobSystem> jobs);

}  // namespace sim
