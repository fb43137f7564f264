// Programs of several steps, for jobs that run beside each other.
#pragma once

#include "sim/program/program.hpp"

namespace sim {

// repeated() is `steps` times the program, behind a wait of `delay`. A step of a rank begins when
// all of its step before has ended, where the host waits, too (a training loop reads the loss). It
// is for the engine alone: buffers and scratch memory are left out.
Program repeated(const Program& program, int steps, Duration delay);

// The operator of repeated(program, ...) with which a step begins, from 0.
std::size_t begin_of_step(const Program& program, int step);

}  // namespace sim
