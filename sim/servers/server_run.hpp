// ServerRun is the steady state of a run of workers and parameter servers.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"
#include "sim/servers/staleness.hpp"

namespace sim {

struct ServerRun {
  Duration step{};                // of a worker, from begin to begin, the mean over all
  Duration compute{};             // kernels in a step
  Duration exchange{}, others{};  // waits in a step: for servers, and for slower workers (bounded)
  Staleness staleness;            // empty where servers are synchronous
  double servers_busy = 0;        // share of the time in which they update
  LinkId busiest{};
  double busiest_share = 0;        // of the link's capacity that is used
  std::vector<double> waited_for;  // by worker: share of the waits of `others` that ended with it
  std::int64_t worker_steps = 0;   // that were counted
};

}  // namespace sim
