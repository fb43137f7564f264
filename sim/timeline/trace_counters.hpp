// Counters of a rank over the step: its memory by category, and what it sends.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

inline constexpr std::size_t counter_width = buffer_category_count;

struct CounterPoint {
  TimePoint at;
  std::array<std::int64_t, counter_width> values{};
};

struct CounterSeries {
  std::vector<std::string_view> names;  // at most counter_width
  std::vector<CounterPoint> points;     // ascending in time; one per instant
};

// MiB by buffer category. A buffer lives from the begin of the first operator that writes it to the
// end of the one that frees it. (The planner's peak follows the order of issue instead, as an
// allocator on the host does: it can lie above this curve.)
CounterSeries memory_over_time(const RankTrack& track, const Program& program);

// sent_share() is the share of the full buffer that each of `ranks` sends in a bandwidth-optimal
// algorithm (Patarasuk & Yuan 2009).
double sent_share(CollectiveKind kind, double ranks);

// MB/s that the rank sends by tensor, data and pipeline communication: the bytes that a
// bandwidth-optimal algorithm makes every rank send, spread over the time that the operator takes.
CounterSeries sending_over_time(const RankTrack& track, const Plan& plan);

}  // namespace sim
