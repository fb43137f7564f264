// Ranks that others wait for, and what they take longer for than the others.
#pragma once

#include <string>
#include <vector>

#include "sim/explain/step_parts.hpp"
#include "sim/explain/tables/kernel_table.hpp"

namespace sim {

struct LateWork {
  StepState state = StepState::untold;
  std::string name{};  // of the kernel; empty: the rank is idle
  double seconds = 0;  // of a step, beyond the mean of the other ranks
};

// Per step, the exposed time that others wait for the rank, in sum over them.
struct LateRank {
  RankId rank{};
  double seconds = 0;
  std::size_t ranks = 0;  // that waited for it
  // Work that takes the rank longer than the others, communication aside; longest first.
  std::vector<LateWork> longer{};
};

// Most waited for first. `list`: rank_steps() of the run.
std::vector<LateRank> late_ranks(const TracedRun& run, const Arrivals& arrivals,
                                 const std::vector<RankStep>& list);

// "compute, by 12.30 ms; most of it nvjet_hsh_128x256"; empty: nothing is longer. `on_host`: of a
// run without GPUs.
std::string longer_text(const LateRank& late, bool on_host = false);

}  // namespace sim
