// The collectives of a traced run in sum, by kind, group and size.
#pragma once

#include <string>
#include <vector>

#include "sim/explain/arrivals.hpp"
#include "sim/explain/kernel_table.hpp"

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
  // Bytes over the time of the median transfer, times what each rank must send of them: as
  // nccl-tests counts it (NVIDIA/nccl-tests, doc/PERFORMANCE.md). 0: bytes or ranks are not told.
  Bandwidth bus{};
};

// Longest first.
std::vector<CollectiveRow> collective_table(const TracedRun& run, const RunSteps& steps,
                                            const CountedSteps& counted, const Arrivals& arrivals);

// The share of the full buffer that each rank must send: 2 (n - 1) / n of an all-reduce,
// (n - 1) / n of an all-gather, a reduce-scatter and an all-to-all, else 1.
double bus_factor(CollectiveKind kind, int ranks);

}  // namespace sim
