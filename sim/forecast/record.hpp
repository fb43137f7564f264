// A simulated step as a record, which `stepcast compare` and runs on real GPUs are held against.
#pragma once

#include "sim/base/control.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/timeline/record.hpp"

namespace sim {

RecordOrigin origin_of(const Scenario& scenario);

// simulated_record() has spans of every rank, or of one per class of equal ranks. Throws Stopped.
Record simulated_record(const Scenario& scenario, bool every_rank, const Control& control = {});

}  // namespace sim
