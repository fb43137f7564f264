// Every distinct kernel and product of a program, run once before its first step.
//
// CUDA loads a kernel when it is launched first, and may wait for all work of the context in that
// (CUDA C++ Programming Guide, "Lazy Loading"): beside a communication that waits for another rank,
// which waits in the same way, it would wait for ever. Eager loading would load all of cuBLASLt.
#pragma once

#include <span>

#include "real/cuda/program_memory.hpp"

namespace real {

struct FirstLaunches {
  const BoundProgram& program;
  const ProgramMemory& memory;       // numbers are overwritten
  std::span<const Launch> launches;  // by operator; those that communicate are left out
  std::span<const Launch> scans;
  std::span<const Launch> packing;  // the kernels of those that communicate
};
// Asynchronous on `stream`. Operands are zeroed before each launch, so that what is an index to a
// kernel is one that exists.
void run_first_launches(const FirstLaunches& what, cudaStream_t stream);

}  // namespace real
