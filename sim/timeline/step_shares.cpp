#include "sim/timeline/step_shares.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace sim {
namespace {

// Seconds, summed over all ranks.
struct StepSums {
  double products = 0, kernels = 0, communication = 0;
};

bool is_product(OpKind kind) {
  return kind == OpKind::gemm || kind == OpKind::attention;
}

void add(const RankTrack& track, const Program& program, StepSums& sums) {
  for (const Span& span : track.spans) {
    const OpKind kind = program.kind[span.op.value];
    const double seconds = to_seconds(span.end - span.active) * track.represents;
    if (is_product(kind)) sums.products += seconds;
    if (is_of_host(kind)) continue;
    if (runs_by_itself(kind)) {
      sums.kernels += seconds;
    } else if (kind != OpKind::barrier) {
      sums.communication += seconds;
    }
  }
}

}  // namespace

Breakdown mean_breakdown(const Plan& plan, const Timeline& timeline) {
  std::vector<std::pair<Breakdown, std::uint64_t>> parts;
  for (const RankTrack& track : timeline.tracks)
    parts.emplace_back(break_down(track, plan.program(track.rank), timeline.end,
                                  plan.layout.pipeline_parallel > 1),
                       track.represents);
  return weighted_mean(parts);
}

StepShares step_shares(const Plan& plan, const Timeline& timeline, const Breakdown& breakdown) {
  StepSums sums;
  for (const RankTrack& track : timeline.tracks)
    add(track, plan.program(track.rank), sums);
  // Meetings and servers, which are beside the timeline, are in the breakdown.
  const double step = to_seconds(std::max(timeline.end.time_since_epoch(), breakdown.total()));
  const double busy = step - to_seconds(breakdown.bubble);
  if (busy <= 0) return {};
  const double compute = to_seconds(breakdown.compute) / busy;
  const double products = sums.kernels > 0 ? sums.products / sums.kernels : 0;
  const double exposed = to_seconds(breakdown.exposed());
  const double communication = sums.communication / plan.world_size();
  return {.products = compute * products,
          .memory_kernels = compute * (1 - products),
          .host = to_seconds(breakdown.host) / busy,
          .tensor = to_seconds(breakdown.exposed_within_layers()) / busy,
          .data = to_seconds(breakdown.exposed_data) / busy,
          .pipeline = to_seconds(breakdown.exposed_pipeline) / busy,
          .hidden = std::clamp((communication - exposed) / step, 0.0, 1.0)};
}

}  // namespace sim
