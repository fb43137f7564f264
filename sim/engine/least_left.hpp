// The least that is left of a step: the longest path through what is still to run, with every
// operator as fast as if it ran alone. The engine only adds to it: communication takes SMs and
// memory bandwidth from kernels, links are shared, and the host issues late. So a simulation that
// is asked whether a step ends by some time can say no long before.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/executor.hpp"

namespace sim {

// By slot, of one slot per program; empty for others: the time in ps from the start of a compute
// operator to the end of the step, by its position, and 0 behind the last. Messages are followed
// to those of these slots that they go to.
// REQUIRES: no jitter, and collectives that are simulated as fluids.
std::vector<std::vector<std::int64_t>> least_left(const ExecutorInput& input);

}  // namespace sim
