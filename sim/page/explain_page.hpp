// The page of an explanation.
#pragma once

#include <string>

#include "sim/explain/explanation.hpp"

namespace sim {

// explain_page has the largest causes as the headline, the waterfall from forecast to measured,
// where the time of a step goes, the ranks that others wait for, and all figures.
std::string explain_page(const Explanation& explanation, const std::string& command);

}  // namespace sim
