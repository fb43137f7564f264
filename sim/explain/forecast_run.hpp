// A forecast's step in the form of a traced run, so that both are looked at alike.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/timeline/record.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

struct ForecastRank {
  RunRank rank;                    // DeviceActivity::planned: the operator
  std::vector<TimePoint> ready{};  // of each activity: when all partners had arrived
  TimePoint last{};                // the end of its last operator
};

// forecast_rank() has an activity for every operator that takes time, from the arrival of the rank
// to its end. Names are those of the program: into Program::names.
ForecastRank forecast_rank(const Record& record, const RecordedTrack& track);

}  // namespace sim
