// A Timeline as a Chrome JSON trace, which the Perfetto UI (ui.perfetto.dev) and chrome://tracing
// open: a process per rank, a thread per stream, arrows for messages, counters for memory and for
// what each rank sends.
//
// Format: "Trace Event Format" (Google, 2016). `ts` and `dur` are microseconds with six decimals,
// so that a picosecond is exact. Slices of one thread never overlap, as Perfetto requires: a stream
// is in order, and the waiting of a communication operator is a slice before its transfer.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

struct TraceOptions {
  std::string title;          // of the whole trace: the scenario's name
  int gpus_per_node = 1;      // for "node 3 gpu 2" in the names of processes
  std::vector<RankId> ranks;  // which of the timeline's tracks; empty: all of them
};

struct TraceStats {
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;
};

// Writes through a buffer of fixed size: memory does not grow with the trace, but for the times at
// which one rank's memory changes. Throws std::runtime_error when `out` fails, and
// std::invalid_argument for a rank that the timeline has no track of.
TraceStats write_perfetto(std::ostream& out, const Plan& plan, const Timeline& timeline,
                          const TraceOptions& options);

// To a file, which appears under its name only when it is complete.
TraceStats write_perfetto_file(const std::string& path, const Plan& plan, const Timeline& timeline,
                               const TraceOptions& options);

}  // namespace sim
