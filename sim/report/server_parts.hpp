// The parts of a step with parameter servers.
#pragma once

#include "sim/servers/server_run.hpp"
#include "sim/timeline/breakdown.hpp"

namespace sim {

// The parts of a step without an exchange become those of the mean worker, the rest of its step is
// waiting. `parts` are of a step of the slowest worker.
void add_servers(Breakdown& parts, const ServerRun& run);

}  // namespace sim
