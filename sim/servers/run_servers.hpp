// Simulates workers and parameter servers over some steps, until the first ones are forgotten.
#pragma once

#include "sim/base/control.hpp"
#include "sim/servers/server_run.hpp"
#include "sim/servers/server_system.hpp"

namespace sim {

// A worker computes; a bucket's gradients go out when they are ready and the bucket before has
// gone. Messages share links max-min fairly. Servers take them one by one; what comes back goes the
// same way. When the kernels are through and all buckets are back, the tail follows, and then the
// next step; with `bounded`, when no worker is more than `staleness` steps behind. Deterministic:
// the same system gives the same run. REQUIRES: a worker and a message or more, compute > 0. Throws
// Stopped.
ServerRun run_servers(const ServerSystem& system, const Control& control = {});

}  // namespace sim
