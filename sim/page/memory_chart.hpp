// The memory of a rank over its step as a picture (SVG).
#pragma once

#include <string>

#include "sim/base/units.hpp"
#include "sim/timeline/trace_counters.hpp"

namespace sim {

// A stacked area by category, the largest at the bottom, with a line at the capacity. Each column
// shows the most that it holds at one instant.
std::string memory_chart(const CounterSeries& series, Duration step, Bytes capacity);

}  // namespace sim
