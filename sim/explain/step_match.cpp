#include "sim/explain/step_match.hpp"

#include <algorithm>

#include "sim/explain/activity_class.hpp"

namespace sim {
namespace {

TracedKernel traced_kernel(const TracedRun& run, const RunRank& rank,
                           const DeviceActivity& activity, TimePoint origin) {
  TracedKernel kernel;
  kernel.name = run.names[activity.name];
  kernel.stream = activity.stream;
  kernel.begin = TimePoint{activity.begin - origin};
  kernel.end = TimePoint{activity.end - origin};
  kernel.kind = activity.kind;
  kernel.issued_by = activity.issuer;
  kernel.op = activity.planned;
  const CollectiveCall call = call_of(rank, activity);
  if (class_of_activity(activity) == ActivityClass::communication) {
    kernel.collective = call.kind;
    kernel.bytes = call.bytes;
  } else if (activity.product >= 0) {
    const Product& product = rank.products[static_cast<std::size_t>(activity.product)];
    kernel.m = product.m;
    kernel.n = product.n;
    kernel.k = product.k;
    kernel.batch = product.batch;
  }
  return kernel;
}

std::vector<std::size_t> activities_of(const RankSteps& steps, std::size_t step) {
  std::vector<std::size_t> activities;
  for (std::size_t i = 0; i < steps.step_of.size(); ++i)
    if (steps.step_of[i] == static_cast<std::int32_t>(step)) activities.push_back(i);
  return activities;
}

TracedRank traced_rank(const TracedRun& run, const RunRank& rank,
                       const std::vector<std::size_t>& activities, TimePoint origin) {
  TracedRank traced{rank.rank, {}};
  traced.kernels.reserve(activities.size());
  for (const std::size_t i : activities)
    traced.kernels.push_back(traced_kernel(run, rank, rank.device[i], origin));
  return traced;
}

// Whether left-over kernels of the kind belong to the operator before them.
bool runs_several(OpKind kind) {
  return kind == OpKind::attention || kind == OpKind::optimizer;
}

void follow(const RunRank& rank, const std::vector<std::size_t>& activities, const Program& program,
            StepMatch& match) {
  std::uint32_t before = no_operator;
  for (const std::size_t i : activities) {
    const OpKind kind = rank.device[i].kind;
    if (match.op_of[i] != no_operator) {
      if (runs_kernel(program.kind[match.op_of[i]])) before = match.op_of[i];
      continue;
    }
    if (runs_several(kind) && before != no_operator && program.kind[before] == kind)
      match.op_of[i] = before;
  }
}

}  // namespace

StepMatch match_step(const TracedRun& run, std::size_t rank_index, const RankSteps& steps,
                     std::size_t step, const Record& forecast, const RecordedTrack& track) {
  const RunRank& rank = run.ranks[rank_index];
  const Program& program = forecast.programs[track.program];
  const std::vector<std::size_t> activities = activities_of(steps, step);
  TracedTimeline timeline;
  timeline.ranks.push_back(traced_rank(run, rank, activities, steps.windows[step].begin));
  timeline.ranks.front().rank = track.rank;
  const RecordMatch aligned = align(forecast, timeline);
  StepMatch match;
  match.op_of.assign(rank.device.size(), no_operator);
  match.matched_ops.assign(program.size(), false);
  if (!aligned.tracks.empty())
    for (std::size_t i = 0; i < activities.size(); ++i)
      match.op_of[activities[i]] = aligned.tracks.front().in_a[i];
  follow(rank, activities, program, match);
  double all = 0, matched = 0;
  for (const std::size_t i : activities) {
    const bool known = match.op_of[i] != no_operator;
    if (known) match.matched_ops[match.op_of[i]] = true;
    if (class_of_activity(rank.device[i]) != ActivityClass::compute) continue;
    all += to_seconds(rank.device[i].time());
    if (known) matched += to_seconds(rank.device[i].time());
  }
  match.share = all > 0 ? matched / all : 1;
  return match;
}

TracedTimeline step_timeline(const TracedRun& run, const RunSteps& steps, std::size_t step) {
  TracedTimeline timeline;
  timeline.device = run.device.name;
  TimePoint first = TimePoint::max();
  for (const RankSteps& of : steps.ranks)
    first = std::min(first, of.windows[step].begin);
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    const StepWindow& window = steps.ranks[r].windows[step];
    const TimePoint origin = run.one_clock ? first : window.begin;
    timeline.step = window.name;
    timeline.end = std::max(timeline.end, TimePoint{window.end - origin});
    timeline.ranks.push_back(
        traced_rank(run, run.ranks[r], activities_of(steps.ranks[r], step), origin));
  }
  return timeline;
}

}  // namespace sim
