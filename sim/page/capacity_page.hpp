// The page of a plan of capacity.
#pragma once

#include <string>

#include "sim/capacity/capacity.hpp"

namespace sim {

// capacity_page has the answers, time against cost over kinds and numbers of GPUs, and all figures.
std::string capacity_page(const CapacityPlan& plan, const std::string& command);

}  // namespace sim
