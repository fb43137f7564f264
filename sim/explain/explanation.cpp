#include "sim/explain/explanation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

void check_has_kernels(const TracedRun& run) {
  for (const RunRank& rank : run.ranks)
    if (rank.device.empty())
      throw InputError{SourcePosition{rank.source, 0, 0},
                       "the trace has no kernels of a GPU: was the profiler told to record "
                       "CUDA activities?"};
  if (run.ranks.empty())
    throw InputError{SourcePosition{run.maker.empty() ? "trace" : run.maker, 0, 0},
                     "the trace has no rank"};
}

void check_has_time(const TracedRun& run, const RunSteps& steps) {
  for (const RankSteps& rank : steps.ranks)
    for (const StepWindow& window : rank.windows)
      if (window.time() > Duration{}) return;
  throw InputError{SourcePosition{run.ranks.front().source, 0, 0},
                   "its kernels take no time: is this the whole trace?"};
}

CountedSteps counted_steps(const TracedRun& run, const RunSteps& steps,
                           const std::vector<RankStep>& list) {
  CountedSteps counted(run.ranks.size(), std::vector<bool>(steps.count(), true));
  for (const RankStep& step : list)
    if (step.first) counted[step.rank][step.step] = false;
  return counted;
}

MeanParts mean_of(const std::vector<RankStep>& steps) {
  MeanParts mean;
  std::map<std::string, double> exposed;
  double count = 0;
  for (const RankStep& step : steps) {
    if (step.first) continue;
    ++count;
    mean.step += to_seconds(step.window.time());
    mean.communication += to_seconds(step.communication);
    for (std::size_t i = 0; i < step_state_count; ++i)
      mean.by_state[i] += to_seconds(step.parts.by_state[i]);
    for (const auto& [group, time] : step.exposed)
      exposed[group] += to_seconds(time);
  }
  count = std::max(1.0, count);
  mean.step /= count;
  mean.communication /= count;
  for (double& part : mean.by_state)
    part /= count;
  for (const auto& [group, seconds] : exposed)
    mean.exposed.emplace_back(group, seconds / count);
  std::stable_sort(mean.exposed.begin(), mean.exposed.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return mean;
}

// The longest rank of each step.
std::map<std::size_t, Duration> step_times(const std::vector<RankStep>& steps, bool first) {
  std::map<std::size_t, Duration> times;
  for (const RankStep& step : steps)
    if (step.first == first) times[step.step] = std::max(times[step.step], step.window.time());
  return times;
}

StepVariation variation_of(const std::vector<RankStep>& steps) {
  std::vector<Duration> sorted;
  for (const auto& [step, time] : step_times(steps, false))
    sorted.push_back(time);
  if (sorted.empty()) return {};
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](std::size_t tenths) { return sorted[(sorted.size() - 1) * tenths / 10]; };
  return {sorted.size(), at(5), at(1), at(9)};
}

void add_notes(const TracedRun& run, const RunSteps& steps, const Arrivals& arrivals,
               Explanation& made) {
  made.notes.insert(made.notes.end(), run.notes.begin(), run.notes.end());
  made.notes.insert(made.notes.end(), steps.notes.begin(), steps.notes.end());
  if (steps.by == StepsBy::whole)
    made.notes.emplace_back(
        "steps are not marked, and no sequence of kernels recurs: the whole "
        "trace is taken as one step");
  if (arrivals.calls > 0 && run.ranks.size() == 1)
    made.notes.emplace_back(
        "one rank was traced: what its collectives wait for other ranks counts "
        "as transfer. Give the traces of all ranks of a group");
  else if (arrivals.matched < arrivals.calls)
    made.notes.push_back(fmt::format(
        "of {} communication kernels {} were matched with those of the other ranks; the waiting of "
        "the others counts as transfer",
        arrivals.calls, arrivals.matched));
}

}  // namespace

double MeanParts::idle() const {
  double sum = 0;
  for (const auto& state : words_of(StepState{}))
    if (is_idle(state.value)) sum += (*this)[state.value];
  return sum;
}

Explanation explain(const TracedRun& run, const Record* forecast, const Device* device) {
  check_has_kernels(run);
  const RunSteps steps = find_steps(run);
  check_has_time(run, steps);
  const Arrivals arrivals = find_arrivals(run, steps);
  Explanation made;
  made.maker = run.maker;
  made.device = run.device.name;
  made.on_host = run.on_host;
  made.world_size = run.world_size;
  for (const RunRank& rank : run.ranks)
    made.ranks.push_back(rank.rank);
  made.by = steps.by;
  made.steps = rank_steps(run, steps, arrivals);
  made.mean = mean_of(made.steps);
  made.variation = variation_of(made.steps);
  const auto first = step_times(made.steps, true);
  made.first_steps = first.size();
  for (const auto& [step, time] : first)
    made.first_factor =
        std::max(made.first_factor, to_seconds(time) / to_seconds(made.variation.median));
  const std::optional<Device> traced = known_device(run.device);
  if (traced) made.peak = peak_in_16_bits(*traced);
  const CountedSteps counted = counted_steps(run, steps, made.steps);
  made.kernels = kernel_tables(run, steps, counted, made.mean.step, made.peak);
  made.collectives = collective_table(run, steps, counted, arrivals);
  made.roofline = roofline_of(run, steps, counted, traced ? &*traced : device);
  made.late = late_ranks(run, arrivals, made.steps);
  made.arrivals_told = arrivals.matched > 0;
  add_notes(run, steps, arrivals, made);
  if (forecast) made.waterfall = make_waterfall(run, *forecast);
  return made;
}

}  // namespace sim
