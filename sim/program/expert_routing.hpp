// To how many sets of experts a token goes: what a fused exchange sends.
#pragma once

#include <cstdint>

#include "sim/program/op_work.hpp"

namespace sim {

// The share of the tokens that choose at least one expert of a set of so many that follow each
// other, the first of which begins a group or lies within one that holds all of them. A token
// chooses `groups_per_token` of the groups, all alike, and `per_token` of the experts in them, all
// alike; or `per_token` that follow each other. REQUIRES: 0 < experts <= routing.experts, per_token
// <= the experts of the chosen groups.
double share_that_chooses(const ExpertRouting& routing, std::int64_t experts);

// Tokens of the fullest block of so many ranks, over the average.
double imbalance_of(const ExpertRouting& routing, int ranks);

}  // namespace sim
