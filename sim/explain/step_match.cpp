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
  std::vector<std::size_t> activities;
  TracedTimeline timeline;
  TracedRank& traced = timeline.ranks.emplace_back();
  traced.rank = track.rank;
  const TimePoint origin = steps.windows[step].begin;
  for (std::size_t i = 0; i < rank.device.size(); ++i) {
    if (steps.step_of[i] != static_cast<std::int32_t>(step)) continue;
    activities.push_back(i);
    traced.kernels.push_back(traced_kernel(run, rank, rank.device[i], origin));
  }
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

}  // namespace sim
