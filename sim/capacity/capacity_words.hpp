// The figures of a plan of capacity in words, as all its forms show them. "-": there is none.
#pragma once

#include <string>

#include "sim/capacity/capacity.hpp"

namespace sim {

std::string wish_text(
    const CapacityPlan& plan);  // "llama-3.1-8b, 1 trillion tokens within 30 days"
std::string days_text(const CapacityPoint& point);  // "20.14 (17.33 to 23.4)", of 95 % of runs
std::string money_text(const CapacityPlan& plan, const CapacityPoint& point);
std::string energy_text(const CapacityPoint& point);
std::string memory_text(const CapacityPoint& point);  // "66.1 of 79.6 GiB"
// "97.1 %; copies in the memory of a peer: 98.3 %, 98.8 % of the GPU-hours".
// REQUIRES: the run ends.
std::string goodput_text(const CapacityPoint& point);

}  // namespace sim
