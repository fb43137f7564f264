// The page of a forecast.
#pragma once

#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"

namespace sim {

// simulate_page has the headline with its interval, where the time goes, the timeline of `ranks`,
// the memory of the fullest of them over the step, what would help most, all figures, and the
// scenario.
std::string simulate_page(const Forecast& made, const Scenario& scenario,
                          const std::vector<RankId>& ranks, const std::string& command);

}  // namespace sim
