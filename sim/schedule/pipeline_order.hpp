// The order of every rank of a pipeline, and when each of its slots begins if all take equally long
// and messages take no time.
#pragma once

#include <vector>

#include "sim/schedule/schedule.hpp"

namespace sim {

struct PipelineOrder {
  std::vector<std::vector<Slot>> ranks;
  std::vector<std::vector<int>> begins;  // of each slot
};
// REQUIRES: as schedule_of.
PipelineOrder pipeline_order(const Layout& layout);

}  // namespace sim
