// Symmetry folding by colour refinement (Weisfeiler & Leman 1968; Paige & Tarjan 1987).
//
// Slots, channels and resources are coloured by what they are, and recoloured by the colours of
// what they touch until nothing splits any more. The partition is then equitable: every slot of a
// class has channels of the same classes, every channel of a class loads resources of the same
// classes with the same weights, every resource of a class is loaded by the same classes. All
// members of a class therefore do the same at the same time, and one of each is simulated. Shares
// are integers (sharing/max_min.hpp), so the quotient gives the whole's times to the picosecond.
//
// A straggler has a variant of its own and a degraded link a capacity of its own: each splits its
// class, and what that reaches, and nothing else.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/system.hpp"

namespace sim {

// The quotient of `whole`: one slot, channel and resource per class, with `represents` counting
// its members. REQUIRES: every slot, channel and resource of `whole` represents 1.
// Throws Stopped.
System fold(const System& whole, const Control& control = {});

// For each resource of `whole`, the first of its class: the one that stands for it in the quotient.
// Throws Stopped.
std::vector<std::uint32_t> representatives(const System& whole, const Control& control = {});

}  // namespace sim
