// What a run of workers and parameter servers settles to.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"

namespace sim {

struct ServerRun {
  Duration step{};                // of a worker, from begin to begin, the mean over all
  Duration compute{};             // of it, kernels
  Duration exchange{}, others{};  // of it, the wait for servers, and for slower workers (bounded)
  // Updates of other workers between a worker's pull of a bucket and its own update of it, by how
  // often: staleness[2] times there were two. Empty where servers are synchronous.
  std::vector<std::int64_t> staleness;
  double servers_busy = 0;  // share of the time in which they update
  LinkId busiest{};
  double busiest_share = 0;        // of the link's capacity that is used
  std::vector<double> waited_for;  // by worker: share of the waits of `others` that ended with it
  std::int64_t worker_steps = 0;   // that were counted

  double mean_staleness() const;
  // The least that so large a share of all updates does not exceed. REQUIRES: 0 < share <= 1.
  std::int64_t staleness_quantile(double share) const;
};

}  // namespace sim
