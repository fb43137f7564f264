// Links that one channel has to itself: the NVLinks of a tensor group, most of all. A channel moves
// one thing at a time, so such a link is never over-asked, and nobody needs to keep count of it.
#pragma once

#include "sim/engine/system.hpp"

namespace sim {

// Sorts the uses of every pattern: first those of links that other channels use too, or that the
// channel alone could over-ask; Pattern::shared_count says how many they are.
void find_own_links(System& system);

}  // namespace sim
