// Memory that PyTorch's caching allocator takes from the device for a program: more than the sum of
// its tensors, since free memory lies in pieces (block_pool.hpp), and kernels that stand for
// several of PyTorch's have tensors of their own (scratch.hpp).
//
// Scope: in issue order; a block that another stream uses is free as soon as the host has issued
// its last user. Workspaces of libraries are left out.
#pragma once

#include "sim/memory/block_pool.hpp"
#include "sim/program/program.hpp"

namespace sim {

// Three steps: the moments of Adam are made at the end of the first one, and gradients are freed at
// the end of each. `capacity`: bytes that the device has for it. Where that is too little even
// after all free segments are returned, it goes on as on a device that has as much as is needed.
CachedMemory cached_memory(const Program& program, Bytes capacity);

}  // namespace sim
