#include "sim/explain/step_parts.hpp"

#include <algorithm>

#include "sim/explain/activity_class.hpp"
#include "sim/explain/gaps.hpp"

namespace sim {
namespace {

// The time within the window while communication is under way.
Duration communication_of(const RunRank& rank, const StepWindow& window) {
  Duration sum{};
  TimePoint done = window.begin;
  for (const DeviceActivity& activity : rank.device) {
    if (class_of_activity(activity) != ActivityClass::communication) continue;
    const TimePoint begin = std::max(activity.begin, done);
    const TimePoint end = std::min(activity.end, window.end);
    if (begin >= end) continue;
    sum += end - begin;
    done = end;
  }
  return sum;
}

void add_states(const TracedRun& run, const RunRank& rank, const std::vector<std::int32_t>& last,
                const std::vector<StateSpan>& states, RankStep& step) {
  for (const StateSpan& state : states) {
    step.parts[state.state] += state.time();
    if (state.state != StepState::transfer && state.state != StepState::peer) continue;
    if (state.activity == not_told) {
      step.exposed["end of the step"] += state.time();
      continue;
    }
    const auto index = static_cast<std::size_t>(state.activity);
    const CollectiveCall call = call_of(rank, rank.device[index]);
    step.exposed[label_of_group(run, call.group)] += state.time();
    if (state.state == StepState::peer && last[index] != not_told)
      step.waited_for[static_cast<std::size_t>(last[index])] += state.time();
  }
}

// Marks the steps at the begin that are much longer than the median of all.
void mark_first(std::vector<RankStep>& steps, std::size_t count) {
  if (count < 3) return;
  std::vector<Duration> longest(count);
  for (const RankStep& step : steps)
    longest[step.step] = std::max(longest[step.step], step.window.time());
  std::vector<Duration> sorted = longest;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count / 2),
                   sorted.end());
  const double bound = to_seconds(sorted[count / 2]) * warm_up_factor;
  std::size_t first = 0;
  while (first < count / 2 && to_seconds(longest[first]) > bound)
    ++first;
  for (RankStep& step : steps)
    step.first = step.step < first;
}

}  // namespace

Duration StateTimes::total() const {
  Duration sum{};
  for (const Duration part : by_state)
    sum += part;
  return sum;
}

Duration StateTimes::idle() const {
  Duration sum{};
  for (const auto& state : words_of(StepState{}))
    if (is_idle(state.value)) sum += (*this)[state.value];
  return sum;
}

StateTimes& StateTimes::operator+=(const StateTimes& other) {
  for (std::size_t i = 0; i < by_state.size(); ++i)
    by_state[i] += other.by_state[i];
  return *this;
}

std::vector<RankStep> rank_steps(const TracedRun& run, const RunSteps& steps,
                                 const Arrivals& arrivals) {
  std::vector<RankStep> list;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    const RunRank& rank = run.ranks[r];
    const HostTroubles troubles{run, rank};
    for (std::size_t s = 0; s < steps.ranks[r].windows.size(); ++s) {
      RankStep& step = list.emplace_back();
      step.rank = r;
      step.step = s;
      step.window = steps.ranks[r].windows[s];
      step.communication = communication_of(rank, step.window);
      add_states(run, rank, arrivals.last[r],
                 states_of(rank, troubles, step.window, arrivals.ready[r], arrivals.done[s]), step);
    }
  }
  mark_first(list, steps.count());
  return list;
}

}  // namespace sim
