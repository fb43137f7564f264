// V-Half and V-Min: pipeline schedules from a building block that repeats every six passes, chosen
// so that activations live half, or a third, as long as under 1F1B.
//
// Source: Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", sections 3 and 4, and
// its code (sail-sg/zero-bubble, zerobubble/scheduler/zbv_greedy.py): the offsets of the passes in
// the block, weight gradients in the free slots, passes moved ahead into free slots as far as
// dependencies and the peak of activations allow.
#pragma once

#include <vector>

#include "sim/schedule/schedule.hpp"

namespace sim {

// REQUIRES: schedule v_half or v_min.
std::vector<std::vector<Slot>> controllable_memory(const Layout& layout);

}  // namespace sim
