// When all ranks of a collective had arrived: what a rank waited for others, and for whom.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/explain/steps.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

struct Arrivals {
  // [rank][activity]: when the last rank had arrived. Its begin, where it did not wait, is no
  // communication, or where the trace does not tell.
  std::vector<std::vector<TimePoint>> ready;
  // [rank][activity]: index of the rank that came last; not_told: none did, or it is not known.
  std::vector<std::vector<std::int32_t>> last;
  // [rank][activity]: how long another rank has been waiting at its begin, at most.
  std::vector<std::vector<Duration>> waited;
  // [rank][activity]: whether `ready` is known of a communication.
  std::vector<std::vector<bool>> told;
  // [step]: when the last rank was done with it; the begin of time, where ranks have no common
  // clock.
  std::vector<TimePoint> done;
  std::uint64_t matched = 0,
                calls = 0;  // communication kernels: of those of all, these were matched
};

// The k-th call of a group in a step is the same one on all its ranks. With one clock the last
// begin is the arrival of the last rank. Otherwise the shortest kernel of the call is its transfer,
// and what the others take longer is their wait; the rank of the shortest kernel came last. Calls
// whose number differs among the ranks of a group are not matched, nor messages of groups of more
// than two: which is whose is not told.
Arrivals find_arrivals(const TracedRun& run, const RunSteps& steps);

}  // namespace sim
