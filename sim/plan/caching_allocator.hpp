// What PyTorch's caching allocator takes from the device for the buffers of a program, block by
// block: more than their sum, since what is free lies in pieces.
//
// Rules: PyTorch, c10/cuda/CUDACachingAllocator.cpp. Requests are rounded up to 512 bytes. Up to 1
// MiB they come from segments of 2 MiB; below 10 MiB from segments of 20 MiB; above from segments
// of their own, rounded up to 2 MiB. The smallest free block that is large enough is taken, and
// split if more than 512 bytes (small) or 1 MiB (large) remain. What is given back joins its free
// neighbours. When the device has nothing left, segments that are wholly free are returned to it.
//
// Scope: one stream, in issue order; a block that another stream uses is free as soon as the host
// has issued its last user. Kernels' own workspaces are left out.
#pragma once

#include "sim/plan/program.hpp"

namespace sim {

struct CachedMemory {
  Bytes reserved{};   // the most that was taken from the device
  Bytes allocated{};  // the most that was in use, rounded
  bool fits = true;   // within the capacity
};

// Two steps: the state of Adam is made at the end of the first one, and its gradients are freed.
// `capacity`: bytes that the device has for it.
CachedMemory cached_memory(const Program& program, Bytes capacity);

}  // namespace sim
