// The parts of a step's time as pages show them.
#pragma once

#include <array>

#include "sim/report/numbers.hpp"

namespace sim {

// part_colours are those of breakdown_fields, in their order.
inline constexpr std::array part_colours{"#009e73", "#b89b00", "#56b4e9", "#e69f00",
                                         "#d55e00", "#cc79a7", "#999999", "#0072b2"};
static_assert(part_colours.size() == breakdown_fields.size());

}  // namespace sim
