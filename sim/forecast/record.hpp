// A simulated step as a record, which `stepcast compare` and runs on real GPUs are held against.
#pragma once

#include <vector>

#include "sim/base/control.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/timeline/record.hpp"

namespace sim {

RecordOrigin origin_of(const Scenario& scenario);

// simulated_record() has spans of every rank, or of one per class of equal ranks. Throws Stopped.
Record simulated_record(const Scenario& scenario, bool every_rank, const Control& control = {});

// The record of some ranks alone. Beyond `most_simulated_ranks`, those of a stage have one track; a
// rank that the job does not have has that of the one it is modulo its size. Throws Stopped.
inline constexpr int most_simulated_ranks = 512;
Record simulated_record(const Scenario& scenario, const std::vector<RankId>& ranks,
                        const Control& control = {});

}  // namespace sim
