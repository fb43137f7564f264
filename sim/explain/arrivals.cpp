#include "sim/explain/arrivals.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/explain/activity_class.hpp"

namespace sim {
namespace {

// Which calls are of one sequence: of one group; without metadata, of one name of a kernel.
struct SequenceKey {
  std::int32_t group = not_told;
  std::string name{};  // where no group is told
  std::int32_t step = 0;
  auto operator<=>(const SequenceKey&) const = default;
};

struct CallPlace {
  std::size_t rank = 0, activity = 0;
};

// Rank by rank, in order of begin.
using Sequences = std::map<SequenceKey, std::map<std::size_t, std::vector<CallPlace>>>;

bool is_message(const CollectiveCall& call, const DeviceActivity& activity) {
  return activity.kind != OpKind::collective || (!call.kind && call.group != not_told);
}

// Whether the k-th call of the group is the same on all its ranks.
bool in_one_order(const TracedRun& run, const CollectiveCall& call,
                  const DeviceActivity& activity) {
  if (!is_message(call, activity)) return true;
  if (call.group < 0) return false;
  const TracedGroup& group = run.groups[static_cast<std::size_t>(call.group)];
  return std::max(group.size, static_cast<int>(group.ranks.size())) == 2;
}

Sequences sequences_of(const TracedRun& run, const RunSteps& steps, Arrivals& arrivals) {
  Sequences sequences;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    const RunRank& rank = run.ranks[r];
    for (std::size_t i = 0; i < rank.device.size(); ++i) {
      const DeviceActivity& activity = rank.device[i];
      if (class_of_activity(activity) != ActivityClass::communication) continue;
      ++arrivals.calls;
      const std::int32_t step = steps.ranks[r].step_of[i];
      const CollectiveCall call = call_of(rank, activity);
      if (step == not_told || !in_one_order(run, call, activity)) continue;
      SequenceKey key{call.group, {}, step};
      if (call.group < 0) key.name = run.names[activity.name];
      sequences[key][r].push_back({r, i});
    }
  }
  return sequences;
}

// Whether a call's ranks are all those of its group that were traced, and more than one.
bool all_members(const TracedRun& run, std::int32_t group, std::size_t ranks) {
  if (ranks < 2) return false;
  if (group < 0) return ranks == run.ranks.size();
  const TracedGroup& of = run.groups[static_cast<std::size_t>(group)];
  // Without the members, several groups may go by one name.
  if (of.ranks.empty()) return of.size > 0 && ranks == static_cast<std::size_t>(of.size);
  const auto traced = std::count_if(run.ranks.begin(), run.ranks.end(), [&](const RunRank& rank) {
    return std::find(of.ranks.begin(), of.ranks.end(), rank.rank) != of.ranks.end();
  });
  return ranks == static_cast<std::size_t>(traced);
}

void match_call(const TracedRun& run, const std::vector<CallPlace>& call, Arrivals& arrivals) {
  const auto activity = [&](const CallPlace& place) -> const DeviceActivity& {
    return run.ranks[place.rank].device[place.activity];
  };
  // The last to arrive: its kernel begins last, or is the shortest.
  const auto later = [&](const CallPlace& a, const CallPlace& b) {
    if (run.one_clock) return activity(a).begin < activity(b).begin;
    return activity(a).time() > activity(b).time();
  };
  const CallPlace last = *std::max_element(call.begin(), call.end(), later);
  for (const CallPlace& place : call) {
    const DeviceActivity& own = activity(place);
    const TimePoint ready = run.one_clock ? std::clamp(activity(last).begin, own.begin, own.end)
                                          : own.end - activity(last).time();
    arrivals.ready[place.rank][place.activity] = ready;
    if (ready > own.begin) {
      arrivals.last[place.rank][place.activity] = static_cast<std::int32_t>(last.rank);
      Duration& waited = arrivals.waited[last.rank][last.activity];
      waited = std::max(waited, ready - own.begin);
    }
    arrivals.told[place.rank][place.activity] = true;
    ++arrivals.matched;
  }
}

std::vector<TimePoint> ends_of_steps(const TracedRun& run, const RunSteps& steps) {
  std::vector<TimePoint> done(steps.count(), TimePoint::min());
  if (!run.one_clock) return done;
  for (std::size_t r = 0; r < run.ranks.size(); ++r)
    for (std::size_t i = 0; i < run.ranks[r].device.size(); ++i) {
      const std::int32_t step = steps.ranks[r].step_of[i];
      if (step == not_told) continue;
      TimePoint& of = done[static_cast<std::size_t>(step)];
      of = std::max(of, run.ranks[r].device[i].end);
    }
  return done;
}

}  // namespace

Arrivals find_arrivals(const TracedRun& run, const RunSteps& steps) {
  Arrivals arrivals;
  for (const RunRank& rank : run.ranks) {
    std::vector<TimePoint>& ready = arrivals.ready.emplace_back();
    for (const DeviceActivity& activity : rank.device)
      ready.push_back(activity.begin);
    arrivals.last.emplace_back(rank.device.size(), not_told);
    arrivals.waited.emplace_back(rank.device.size(), Duration{});
    arrivals.told.emplace_back(rank.device.size(), false);
  }
  arrivals.done = ends_of_steps(run, steps);
  for (const auto& [key, ranks] : sequences_of(run, steps, arrivals)) {
    if (!all_members(run, key.group, ranks.size())) continue;
    const std::size_t calls = ranks.begin()->second.size();
    const bool same = std::all_of(ranks.begin(), ranks.end(),
                                  [&](const auto& of) { return of.second.size() == calls; });
    if (!same) continue;
    for (std::size_t k = 0; k < calls; ++k) {
      std::vector<CallPlace> call;
      for (const auto& [rank, places] : ranks)
        call.push_back(places[k]);
      match_call(run, call, arrivals);
    }
  }
  return arrivals;
}

}  // namespace sim
