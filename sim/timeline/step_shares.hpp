// The parts of a step's time, as shares of it: how much longer the step takes, to first order, if
// one part becomes slower.
#pragma once

#include "sim/plan/plan.hpp"
#include "sim/timeline/breakdown.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

// Each in [0, 1]. The first six are disjoint and sum to 1: pipeline bubbles, which are as long as
// the work that others do meanwhile, are divided among them in proportion.
struct StepShares {
  double products = 0;        // matrix products and attention
  double memory_kernels = 0;  // all other kernels
  double host = 0;            // nothing runs: the host has yet to issue
  double tensor = 0;          // exposed communication within layers: tensor, context, expert
  double data = 0;            // other exposed collectives
  double pipeline = 0;        // exposed sends and receives
  // Communication that kernels hide: it shows if it is slower than forecast.
  double hidden = 0;
};

// Means over the ranks. `breakdown`: theirs. REQUIRES: spans were recorded.
StepShares step_shares(const Plan& plan, const Timeline& timeline, const Breakdown& breakdown);

// The mean of all ranks' breakdowns. REQUIRES: spans were recorded.
Breakdown mean_breakdown(const Plan& plan, const Timeline& timeline);

}  // namespace sim
