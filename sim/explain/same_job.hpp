// Whether a trace and a forecast are of the same job.
#pragma once

#include <string>
#include <vector>

#include "sim/explain/steps.hpp"
#include "sim/timeline/record.hpp"
#include "sim/topology/device.hpp"

namespace sim {

// job_differences() has a sentence for each thing in which they differ: world size, number of
// products and of collectives of a step, shapes that the other does not have, little that matches.
std::vector<std::string> job_differences(const TracedRun& run, std::size_t rank,
                                         const RankSteps& steps, std::size_t step,
                                         const Record& forecast, const RecordedTrack& track,
                                         double matched);

// device_difference says that the traced GPU is another one than the forecast's. Empty: it is the
// same, or no shipped device is known by the name in the trace.
std::string device_difference(const TracedDevice& traced, const Device& forecast);

}  // namespace sim
