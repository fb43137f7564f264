// The order of ranks that a layout amounts to.
#pragma once

#include <vector>

#include "sim/layout/layout.hpp"

namespace sim {

// wide_dimensions is `order` without the dimensions that have one rank, on which no step depends.
std::vector<Dimension> wide_dimensions(const Layout& layout, std::vector<Dimension> order);

}  // namespace sim
