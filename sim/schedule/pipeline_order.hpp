// The order of every rank of a pipeline, and when each of its slots begins if all take equally long
// and messages take no time.
#pragma once

#include <vector>

#include "sim/schedule/schedule.hpp"

namespace sim {

struct PipelineOrder {
  std::vector<std::vector<Slot>> ranks;
  // The begin of each slot; empty where the schedule does not let messages wait
  // (ScheduleRules::sends_beside).
  std::vector<std::vector<int>> begins;
};
// REQUIRES: as schedule_of.
PipelineOrder pipeline_order(const Layout& layout);

}  // namespace sim
