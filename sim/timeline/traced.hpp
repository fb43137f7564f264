// Kernels that the GPUs of a step ran, as a trace tells them, rank by rank, and which operator of a
// forecast each of them is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/timeline/match.hpp"

namespace sim {

struct TracedKernel {
  std::string name;
  std::int64_t stream = 0;            // of the device, as the trace numbers it
  TimePoint begin, end;               // from the first kernel of the rank
  OpKind kind = OpKind::elementwise;  // by its name and its operator
  // Sizes of matrix products whose shapes are known; else 0.
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  std::optional<CollectiveKind> collective{};
  Bytes bytes{};                // of a collective: the full buffer
  std::int64_t issued_by = -1;  // the framework's operator, of whose kernels this is one; -1: none
  std::int64_t op = -1;         // of the rank's program, where the trace says it; else -1
  Duration time() const { return end - begin; }
};

struct TracedRank {
  RankId rank{};
  std::vector<TracedKernel> kernels;  // ascending begin; those of several streams may overlap
};

struct TracedTimeline {
  std::string step;  // "ProfilerStep#7"; empty: the traces mark none
  std::string device;
  TimePoint end{};                // of the longest rank
  std::vector<TracedRank> ranks;  // ascending
};

// Kernels that name their operator are matched by it, where the forecast has it under that name.
// Collectives are matched by kind, bytes and k-th call, products by shape and order, the rest by
// order between the products that were matched on both sides. A forecast's operator may be several
// kernels: TrackMatch::in_a is of kernels, in_b has the first kernel. What has no match stays so.
// `TrackMatch::b` indexes the ranks of the trace.
RecordMatch align(const Record& forecast, const TracedTimeline& measured);

}  // namespace sim
