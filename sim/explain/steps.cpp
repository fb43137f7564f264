#include "sim/explain/steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace sim {
namespace {

TimePoint first_begin(const RunRank& rank) {
  return rank.device.empty() ? TimePoint{} : rank.device.front().begin;
}

TimePoint last_end(const RunRank& rank) {
  TimePoint end = first_begin(rank);
  for (const DeviceActivity& activity : rank.device)
    end = std::max(end, activity.end);
  return end;
}

// When the host issued it; where that is not told, when it began.
TimePoint issued_at(const RunRank& rank, const DeviceActivity& activity) {
  if (activity.launch < 0 || activity.launch >= static_cast<std::int32_t>(rank.host.size()))
    return activity.begin;
  return rank.host[static_cast<std::size_t>(activity.launch)].begin;
}

RankSteps one_step(const RunRank& rank) {
  return {{{"whole trace", first_begin(rank), last_end(rank)}},
          std::vector<std::int32_t>(rank.device.size(), 0)};
}

// The marks of the steps that all ranks have, by name.
std::vector<std::string> common_marks(const TracedRun& run) {
  std::map<std::string, std::size_t> counts;
  for (const RunRank& rank : run.ranks)
    for (const StepMark& mark : rank.steps)
      ++counts[mark.name];
  std::vector<std::string> names;
  for (const StepMark& mark : run.ranks.front().steps)
    if (counts[mark.name] == run.ranks.size()) names.push_back(mark.name);
  return names;
}

// Activities by the mark in which they were issued, and windows by marks and by what the device had
// still to do.
RankSteps by_marks(const RunRank& rank, const std::vector<std::string>& names) {
  RankSteps steps;
  std::vector<const StepMark*> marks;
  for (const StepMark& mark : rank.steps)
    if (std::find(names.begin(), names.end(), mark.name) != names.end()) marks.push_back(&mark);
  std::vector<TimePoint> done(marks.size(), TimePoint::min());
  TimePoint before = TimePoint::min();  // of what was issued before the first mark
  for (const DeviceActivity& activity : rank.device) {
    const TimePoint at = issued_at(rank, activity);
    const auto next = std::upper_bound(marks.begin(), marks.end(), at,
                                       [](TimePoint t, const StepMark* m) { return t < m->begin; });
    std::int32_t& of = steps.step_of.emplace_back(not_told);
    if (next == marks.begin()) {
      before = std::max(before, activity.end);
      continue;
    }
    const auto index = static_cast<std::size_t>(next - marks.begin() - 1);
    if (at >= marks[index]->end) continue;
    of = static_cast<std::int32_t>(index);
    done[index] = std::max(done[index], activity.end);
  }
  for (std::size_t i = 0; i < marks.size(); ++i) {
    const TimePoint begin = std::max(marks[i]->begin, before);
    before = std::max({begin, marks[i]->end, done[i]});
    // The next step begins at its mark, unless the device is still at this one.
    TimePoint end = before;
    if (i + 1 < marks.size()) end = std::min(end, std::max({begin, marks[i + 1]->begin, done[i]}));
    before = end;
    steps.windows.push_back({marks[i]->name, begin, end});
  }
  return steps;
}

// The activities of the stream with most kernels, in order.
std::vector<std::size_t> busiest_stream(const RunRank& rank) {
  std::map<std::uint32_t, std::vector<std::size_t>> streams;
  for (std::size_t i = 0; i < rank.device.size(); ++i)
    if (rank.device[i].what == DeviceActivity::What::kernel)
      streams[rank.device[i].stream].push_back(i);
  const auto most = std::max_element(
      streams.begin(), streams.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  return most == streams.end() ? std::vector<std::size_t>{} : most->second;
}

// Where in its period a step begins: behind the last kernel of the optimizer, else behind the gaps
// that are longest in sum.
std::size_t phase_of(const RunRank& rank, const std::vector<std::size_t>& kernels,
                     const Recurrence& of) {
  std::vector<Duration> gap(of.length);
  std::vector<bool> optimizer(of.length);
  for (std::size_t i = of.first; i < of.first + of.length * of.times; ++i) {
    const std::size_t at = (i - of.first) % of.length;
    if (rank.device[kernels[i]].kind == OpKind::optimizer) optimizer[at] = true;
    if (i > of.first) gap[at] += rank.device[kernels[i]].begin - rank.device[kernels[i - 1]].end;
  }
  std::size_t best = 0;
  bool behind_optimizer = false;
  for (std::size_t at = 0; at < of.length; ++at) {
    const std::size_t last = (at + of.length - 1) % of.length;
    const bool behind = optimizer[last] && !optimizer[at];
    if ((behind && !behind_optimizer) || (behind == behind_optimizer && gap[at] > gap[best])) {
      best = at;
      behind_optimizer = behind;
    }
  }
  return best;
}

// The begins of steps that recur, and the end of the last whole one; fewer than two: there are
// none.
std::vector<TimePoint> recurring(const RunRank& rank) {
  const std::vector<std::size_t> kernels = busiest_stream(rank);
  std::vector<std::uint32_t> names;
  names.reserve(kernels.size());
  for (const std::size_t i : kernels)
    names.push_back(rank.device[i].name);
  const Recurrence found = find_recurrence(names);
  if (found.times < 2) return {};
  std::vector<TimePoint> bounds;
  const std::size_t begin = found.first + phase_of(rank, kernels, found);
  // The first step may lie before the first whole period.
  const std::size_t first = begin >= found.length ? begin - found.length : begin;
  for (std::size_t i = first; i < kernels.size(); i += found.length) {
    bounds.push_back(rank.device[kernels[i]].begin);
    if (i + found.length == kernels.size()) bounds.push_back(last_end(rank));
  }
  return bounds;
}

RankSteps by_bounds(const RunRank& rank, const std::vector<TimePoint>& bounds, std::size_t count) {
  RankSteps steps;
  for (std::size_t i = 0; i < count; ++i)
    steps.windows.push_back({fmt::format("step {}", i + 1), bounds[i], bounds[i + 1]});
  for (const DeviceActivity& activity : rank.device) {
    const auto next = std::upper_bound(bounds.begin(), bounds.end(), activity.begin);
    const auto index = static_cast<std::int32_t>(next - bounds.begin()) - 1;
    steps.step_of.push_back(index >= 0 && index < static_cast<std::int32_t>(count) ? index
                                                                                   : not_told);
  }
  return steps;
}

// Takes the names of steps that have no length on a rank, as where its clock ran backwards.
std::size_t drop_empty(const std::vector<RankSteps>& ranks, std::vector<std::string>& names) {
  std::size_t dropped = 0;
  for (const RankSteps& rank : ranks)
    for (const StepWindow& window : rank.windows)
      if (window.end <= window.begin) dropped += std::erase(names, window.name);
  return dropped;
}

bool find_by_marks(const TracedRun& run, RunSteps& steps) {
  std::vector<std::string> names = common_marks(run);
  const std::size_t marked = names.size();
  do {
    steps.ranks.clear();
    for (const RunRank& rank : run.ranks)
      steps.ranks.push_back(by_marks(rank, names));
  } while (drop_empty(steps.ranks, names) > 0);
  if (names.size() < marked)
    steps.notes.push_back(fmt::format("{} of {} marked steps have no length: they were left out",
                                      marked - names.size(), marked));
  if (names.empty()) {
    steps.ranks.clear();
    return false;
  }
  steps.by = StepsBy::marks;
  for (const RunRank& rank : run.ranks) {
    if (rank.steps.size() > marked)
      steps.notes.push_back(fmt::format("rank {}: {} of {} marked steps are not in all traces",
                                        rank.rank.value, rank.steps.size() - marked,
                                        rank.steps.size()));
  }
  return true;
}

bool find_by_recurrence(const TracedRun& run, RunSteps& steps) {
  std::vector<std::vector<TimePoint>> bounds;
  std::size_t least = SIZE_MAX;
  for (const RunRank& rank : run.ranks) {
    bounds.push_back(recurring(rank));
    least = std::min(least, bounds.back().empty() ? 0 : bounds.back().size() - 1);
  }
  if (least == 0 || least == SIZE_MAX) return false;
  steps.by = StepsBy::recurrence;
  for (std::size_t i = 0; i < run.ranks.size(); ++i)
    steps.ranks.push_back(by_bounds(run.ranks[i], bounds[i], least));
  return true;
}

}  // namespace

RunSteps find_steps(const TracedRun& run) {
  RunSteps steps;
  if (run.ranks.empty() || find_by_marks(run, steps) || find_by_recurrence(run, steps))
    return steps;
  for (const RunRank& rank : run.ranks)
    steps.ranks.push_back(one_step(rank));
  return steps;
}

}  // namespace sim
