// The memory that this process may take.
#pragma once

#include "sim/base/units.hpp"

namespace sim {

// machine_memory: the least of the machine's, its control group's (cgroup 2, memory.max) and the
// limit of the address space (ulimit -v), read once.
Bytes machine_memory();

}  // namespace sim
