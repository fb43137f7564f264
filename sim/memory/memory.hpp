// Peak memory of a program by liveness of its buffers in issue order: the order in which a caching
// allocator on the host hands memory out. Time plays no part, so the answer is exact for the plan.
#pragma once

#include <array>

#include "sim/layout/layout.hpp"
#include "sim/program/program.hpp"

namespace sim {

struct MemoryUse {
  Bytes peak{};                                        // most bytes alive at once
  std::array<Bytes, buffer_category_count> at_peak{};  // by category
  std::array<Bytes, buffer_category_count> peak_of{};  // the highest of each category on its own
  OpId peak_op{};                                      // the operator being issued at the peak
};

MemoryUse memory_use(const Program& program);

// HostMemoryUse is the memory of a rank in its host, and on its disk.
struct HostMemoryUse {
  Bytes memory{}, disk{};
};
HostMemoryUse host_memory_use(const Program& program, const Layout& layout);

}  // namespace sim
