// The means of a run against failures, as the parts of its model.
#pragma once

#include <vector>

#include "sim/base/control.hpp"
#include "sim/economics/checkpoint.hpp"
#include "sim/economics/run_model.hpp"

namespace sim {

// CopyTimes are those of a copy in the memory of the hosts.
struct CopyTimes {
  std::int64_t every = 0;  // steps; 0: there is none
  Seconds stall{};         // that training halts
  Seconds lag{};           // until it can be restored from
  Seconds load{};
};

// copy_times() of a step that takes `step`. A copy to the host is taken while the next step
// computes, and halts what of it is longer (CheckFreq, Mohan et al. 2021). Throws InputError where
// a copy takes longer than the steps between two.
CopyTimes copy_times(const CheckpointSize& size, const MemoryRules& rules, Seconds step);

// The rules of a run, for a job of `nodes` nodes with `gpus` GPUs. `speeds` are those of
// NodePool. REQUIRES: run.segments, and for the tier run.lag, are set.
void add_memory_tier(const CopyTimes& times, MemoryPlace place, const RestartTimes& restart,
                     Seconds storage_load, Seconds step, int nodes, RunModel& run);
void add_pool(const Budget& budget, std::vector<double> speeds, RunModel& run);
void add_corruption(const CorruptionRules& rules, int gpus, RunModel& run);

// Speeds of a job with 1, 2, .. nodes too few: each forecast anew as a job of the replicas that are
// left. Throws InputError where the layout allows no such number.
std::vector<double> elastic_speeds(const Scenario& scenario, const ElasticRules& rules,
                                   const Control& control);

}  // namespace sim
