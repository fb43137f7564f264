#include "sim/trace/clocks.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace sim {
namespace {

// Profilers map the clock of a GPU to that of its host to within microseconds.
constexpr Duration mapping_error{50'000'000};

bool needs_all_ranks(const CollectiveCall& call) {
  return call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce_scatter ||
         call.kind == CollectiveKind::all_gather || call.kind == CollectiveKind::all_to_all;
}

struct CallTimes {
  TimePoint begin, end;
};
using CallsOfGroup = std::map<std::pair<std::int32_t, CollectiveKind>, std::vector<CallTimes>>;

CallsOfGroup calls_of(const RunRank& rank, const std::vector<TracedGroup>& groups) {
  CallsOfGroup calls;
  for (const DeviceActivity& activity : rank.device) {
    if (activity.call == not_told) continue;
    const CollectiveCall& call = rank.calls[static_cast<std::size_t>(activity.call)];
    if (call.group == not_told || !needs_all_ranks(call)) continue;
    if (!groups[static_cast<std::size_t>(call.group)].ranks.empty())
      calls[{call.group, *call.kind}].push_back({activity.begin, activity.end});
  }
  return calls;
}

}  // namespace

ClockAgreement clocks_agree(const std::vector<RunRank>& ranks,
                            const std::vector<TracedGroup>& groups) {
  struct Meeting {
    std::size_t members = 0;
    bool same = true;              // as many calls of all
    std::vector<CallTimes> calls;  // the last begin, the first end
  };
  std::map<std::pair<std::int32_t, CollectiveKind>, Meeting> meetings;
  for (const RunRank& rank : ranks)
    for (auto& [key, calls] : calls_of(rank, groups)) {
      Meeting& meeting = meetings[key];
      if (meeting.members++ == 0) meeting.calls = calls;
      meeting.same = meeting.same && meeting.calls.size() == calls.size();
      for (std::size_t i = 0; i < calls.size() && meeting.same; ++i) {
        meeting.calls[i].begin = std::max(meeting.calls[i].begin, calls[i].begin);
        meeting.calls[i].end = std::min(meeting.calls[i].end, calls[i].end);
      }
    }
  ClockAgreement found = ClockAgreement::unknown;
  for (const auto& [key, meeting] : meetings) {
    if (meeting.members < 2 || !meeting.same) continue;
    found = ClockAgreement::agree;
    for (const CallTimes& call : meeting.calls)
      if (call.begin > call.end + mapping_error) return ClockAgreement::disagree;
  }
  return found;
}

void shift(RunRank& rank, Duration by) {
  const auto move = [&](auto& list) {
    for (auto& entry : list) {
      entry.begin += by;
      entry.end += by;
    }
  };
  move(rank.device);
  move(rank.host);
  move(rank.steps);
}

TimePoint first_time(const RunRank& rank) {
  std::optional<TimePoint> first;
  const auto look = [&](const auto& list) {
    if (!list.empty()) first = std::min(first.value_or(list.front().begin), list.front().begin);
  };
  look(rank.device);
  look(rank.host);
  look(rank.steps);
  return first.value_or(TimePoint{});
}

}  // namespace sim
