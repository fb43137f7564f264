// Ranks that others wait for, and what they do while they are waited for.
#pragma once

#include <string>
#include <vector>

#include "sim/explain/step_parts.hpp"
#include "sim/explain/tables/kernel_table.hpp"

namespace sim {

struct LateWork {
  StepState state = StepState::untold;
  std::string name{};  // of the kernel or the collective; empty: the rank is idle
  double seconds = 0;  // of a step
};

// Per step, the exposed time that others wait for the rank, in sum over them.
struct LateRank {
  RankId rank{};
  double seconds = 0;
  std::size_t ranks = 0;  // that waited for it
  // What the rank does while at least one waits for a collective that it has not begun, longest
  // first. Instants count once.
  std::vector<LateWork> meanwhile{};
};

// Most waited for first. `list`: rank_steps() of the run.
std::vector<LateRank> late_ranks(const TracedRun& run, const RunSteps& steps,
                                 const Arrivals& arrivals, const std::vector<RankStep>& list);

// "62 % compute, most of it nvjet_hsh_128x256"; empty: not told. `on_host`: of a run without GPUs.
std::string meanwhile_text(const LateRank& late, bool on_host = false);

}  // namespace sim
