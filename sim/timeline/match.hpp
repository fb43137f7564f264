// Which operator of one record is which of another: to show both side by side, and to say of how
// much of the measured time the other record has an operator.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/timeline/record.hpp"

namespace sim {

inline constexpr std::uint32_t no_operator = UINT32_MAX;

// A track of B and its counterpart in A, as indices into Record::tracks, and their operators.
struct TrackMatch {
  std::uint32_t a = 0, b = 0;
  std::vector<std::uint32_t> in_b;  // of each operator of A: the same one of B, or no_operator
  std::vector<std::uint32_t> in_a;  // of each operator of B
};

struct RecordMatch {
  std::vector<TrackMatch> tracks;  // one per track of B that has a counterpart
  // Seconds of all operators of B, active to end, summed over its ranks, and of those that A has.
  double measured = 0, matched = 0;
  std::uint64_t operators = 0, matched_operators = 0;  // the same, counted
  double share() const { return measured > 0 ? matched / measured : 0; }
};

// The same operator: of the same stream, kind, pass, name, layer, chunk and micro-batch, and the
// k-th such of its rank. What it moves or computes may differ: same_work() tells.
RecordMatch match_operators(const Record& a, const Record& b);

// The track of the rank itself, else one of its place in the pipeline: ranks of a stage run one
// program. Null: there is none.
const RecordedTrack* counterpart(const Record& record, const RecordedTrack& of);

}  // namespace sim
