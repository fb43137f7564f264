// The collectives of a traced run in sum, by kind, group and size.
#pragma once

#include <string>
#include <vector>

#include "sim/explain/arrivals.hpp"
#include "sim/explain/tables/kernel_table.hpp"

namespace sim {

struct CollectiveRow {
  std::string kind;            // "all_gather"; "message"; the kernel's name where neither is told
  std::string group;           // its label
  int ranks = 0;               // of the group; 0: not told
  Bytes bytes{};               // of the full buffer; 0: not told
  double count = 0;            // per step and rank
  double seconds = 0;          // of a step, transfer and waiting
  double waiting_seconds = 0;  // of these, for other ranks
  Duration median{};           // of one transfer
  // The median transfer's, as nccl-tests counts it (bus_factor()). 0: bytes or ranks are not told.
  Bandwidth bus{};
};

// Longest first.
std::vector<CollectiveRow> collective_table(const TracedRun& run, const RunSteps& steps,
                                            const CountedSteps& counted, const Arrivals& arrivals);

}  // namespace sim
