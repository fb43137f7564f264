#include "sim/explain/tables/late_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/explain/activity_class.hpp"
#include "sim/explain/explanation_sections.hpp"
#include "sim/explain/gaps.hpp"

namespace sim {
namespace {

struct WaitedTime {
  TimePoint begin, end;
};

// While others wait in a call of the step that the rank has not begun: disjoint, ascending.
std::vector<WaitedTime> waited_times(const RunRank& rank, const RankSteps& steps, std::size_t step,
                                     const std::vector<Duration>& waited) {
  std::vector<WaitedTime> times;
  TimePoint done = steps.windows[step].begin;
  for (std::size_t i = 0; i < rank.device.size(); ++i) {
    if (waited[i] <= Duration{} || steps.step_of[i] != static_cast<std::int32_t>(step)) continue;
    const TimePoint end = rank.device[i].begin;
    const TimePoint begin = std::max(done, end - waited[i]);
    if (begin >= end) continue;
    times.push_back({begin, end});
    done = end;
  }
  return times;
}

using WorkSums = std::map<std::pair<StepState, std::string>, Duration>;

std::string name_of_state(const TracedRun& run, const RunRank& rank, const StateSpan& state) {
  if (state.activity == not_told) return {};
  const DeviceActivity& activity = rank.device[static_cast<std::size_t>(state.activity)];
  if (class_of_activity(activity) != ActivityClass::communication)
    return kernel_words(run.names[activity.name]);
  const CollectiveCall call = call_of(rank, activity);
  return fmt::format("{} [{}]", name_of_call(call), label_of_group(run, call.group));
}

// Both are ascending.
void add_overlap(const TracedRun& run, const RunRank& rank, const std::vector<StateSpan>& states,
                 const std::vector<WaitedTime>& times, WorkSums& sums) {
  auto time = times.begin();
  for (const StateSpan& state : states) {
    while (time != times.end() && time->end <= state.begin)
      ++time;
    for (auto at = time; at != times.end() && at->begin < state.end; ++at) {
      const Duration both = std::min(at->end, state.end) - std::max(at->begin, state.begin);
      if (both > Duration{}) sums[{state.state, name_of_state(run, rank, state)}] += both;
    }
  }
}

std::vector<LateWork> works_of(const WorkSums& sums, double steps) {
  std::vector<LateWork> works;
  for (const auto& [what, time] : sums)
    works.push_back({what.first, what.second, to_seconds(time) / steps});
  std::stable_sort(works.begin(), works.end(),
                   [](const LateWork& a, const LateWork& b) { return a.seconds > b.seconds; });
  return works;
}

}  // namespace

std::vector<LateRank> late_ranks(const TracedRun& run, const RunSteps& steps,
                                 const Arrivals& arrivals, const std::vector<RankStep>& list) {
  std::map<std::size_t, double> seconds;
  std::map<std::size_t, std::set<std::size_t>> waiting;
  double counted = 0;
  for (const RankStep& step : list) {
    if (step.first) continue;
    ++counted;
    for (const auto& [rank, time] : step.waited_for) {
      seconds[rank] += to_seconds(time);
      waiting[rank].insert(step.rank);
    }
  }
  counted = std::max(1.0, counted / static_cast<double>(run.ranks.size()));
  std::map<std::size_t, WorkSums> works;
  for (const RankStep& step : list) {
    if (step.first || !seconds.contains(step.rank)) continue;
    const RunRank& rank = run.ranks[step.rank];
    const std::vector<StateSpan> states =
        states_of(rank, HostTroubles{run, rank}, step.window, arrivals.ready[step.rank],
                  arrivals.done[step.step]);
    add_overlap(run, rank, states,
                waited_times(rank, steps.ranks[step.rank], step.step, arrivals.waited[step.rank]),
                works[step.rank]);
  }
  std::vector<LateRank> late;
  for (const auto& [rank, time] : seconds)
    late.push_back({run.ranks[rank].rank, time / counted, waiting[rank].size(),
                    works_of(works[rank], counted)});
  std::stable_sort(late.begin(), late.end(),
                   [](const LateRank& a, const LateRank& b) { return a.seconds > b.seconds; });
  return late;
}

std::string meanwhile_text(const LateRank& late, bool on_host) {
  std::map<StepState, double> by_state;
  double all = 0;
  for (const LateWork& work : late.meanwhile) {
    by_state[work.state] += work.seconds;
    all += work.seconds;
  }
  if (all <= 0) return {};
  const auto most =
      std::max_element(by_state.begin(), by_state.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string text =
      fmt::format("{:.0f} % {}", 100 * most->second / all, words_of_state(most->first, on_host));
  const auto longest =
      std::find_if(late.meanwhile.begin(), late.meanwhile.end(),
                   [&](const LateWork& work) { return work.state == most->first; });
  if (!longest->name.empty()) text += ", most of it " + longest->name;
  return text;
}

}  // namespace sim
