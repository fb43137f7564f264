// The kernels of a step, and which operator of a forecast each of them is.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/explain/steps.hpp"
#include "sim/timeline/record.hpp"
#include "sim/timeline/traced.hpp"

namespace sim {

struct StepMatch {
  std::vector<std::uint32_t> op_of;  // of each activity of the rank; no_operator: none
  std::vector<bool> matched_ops;     // of the program: whether a kernel is of it
  double share = 0;                  // of the time of the step's kernels, without communication
};

// match_step() aligns the kernels of one step (align()), then gives a kernel of attention or of the
// optimizer that is left over to the operator of the kernel before it: frameworks run several
// kernels for one pass.
StepMatch match_step(const TracedRun& run, std::size_t rank, const RankSteps& steps,
                     std::size_t step, const Record& forecast, const RecordedTrack& track);

// step_timeline() has the kernels of one step of all ranks. Times count from the begin of the step:
// of the first rank on one clock, else of each.
TracedTimeline step_timeline(const TracedRun& run, const RunSteps& steps, std::size_t step);

}  // namespace sim
