// Which ranges of NVTX mark the steps of a run.
#pragma once

#include <string>
#include <vector>

#include "sim/trace/traced_run.hpp"

namespace sim {

struct NvtxRange {
  std::string name{};
  std::uint32_t thread = 0;
  TimePoint begin, end;
};

// Ranges that recur and have "step" or "iteration" in their names ("step 4", "iteration 5": numbers
// are left aside), or else those that recur and lie in no other. Those of one name, on one thread,
// that last longest together. Of the optimizer, the scheduler and the loader of data none is a
// step. Empty: none recurs.
std::vector<StepMark> steps_of_ranges(std::vector<NvtxRange> ranges);

}  // namespace sim
