// Predicted against measured times as a picture (SVG): one point per row, both axes logarithmic.
#pragma once

#include <span>
#include <string>

#include "sim/scores/score.hpp"

namespace sim {

// Rows to fit on are hollow, rows without a time left out; the diagonal is a perfect forecast, the
// lines beside it are 10% off.
std::string scatter_svg(std::span<const SetResult> results);

}  // namespace sim
