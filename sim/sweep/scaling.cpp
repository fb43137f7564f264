#include "sim/sweep/scaling.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/input_error.hpp"
#include "sim/base/rounding.hpp"
#include "sim/scenario/node_use.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {
namespace {

[[noreturn]] void refuse_scaling(const std::string& path, const std::string& why) {
  throw InputError{SourcePosition{path, 0, 0}, why};
}

// Job is what all points share.
struct Job {
  const ScalingSpecification& specification;
  std::function<int(int gpus)> nodes_for;  // as many as hold so many GPUs
  int inner = 1;                           // ranks of one replica
  std::int64_t batch = 0;
  Control control{};  // stop alone

  std::int64_t batch_on(ScalingKind kind, int gpus) const {
    return kind == ScalingKind::strong ? batch : batch * gpus / specification.gpus.front();
  }
  std::vector<std::string> overrides(ScalingKind kind, int gpus) const {
    std::vector<std::string> all = specification.overrides;
    all.push_back(fmt::format("cluster.nodes={}", nodes_for(gpus)));
    all.push_back(fmt::format("cluster.gpus={}", gpus));
    all.push_back(fmt::format("layout.global_batch={}", batch_on(kind, gpus)));
    if (specification.layout == LayoutMode::fixed)
      all.push_back(fmt::format("layout.data_parallel={}", std::max(1, gpus / inner)));
    return all;
  }
  bool divides(ScalingKind kind, int gpus) const {
    return kind == ScalingKind::strong || batch * gpus % specification.gpus.front() == 0;
  }
};

bool bound_by_communication(const PointResult& result) {
  return result.told() && result.communication() > result.breakdown.compute;
}

// Between a number of GPUs where the step computes longer than it waits and one where it does not.
// Only whole replicas with a whole batch can be forecast; others count as unknown and are passed
// by.
int first_bound(const Job& job, ScalingKind kind, int low, int high) {
  while (high - low > job.inner) {
    const int middle = low + std::max(1, (high - low) / job.inner / 2) * job.inner;
    if (!job.divides(kind, middle)) return high;
    const PointResult result = forecast_point(job.specification.path, job.overrides(kind, middle),
                                              job.specification.layout, job.control);
    if (!result.told()) return high;
    (bound_by_communication(result) ? high : low) = middle;
  }
  return high;
}

std::optional<int> communication_bound_from(const Job& job, const ScalingCurve& curve) {
  int below = 0;
  for (const ScalingPoint& point : curve.points) {
    if (!point.result.told()) continue;
    if (bound_by_communication(point.result))
      return below == 0 ? point.gpus : first_bound(job, curve.kind, below, point.gpus);
    below = point.gpus;
  }
  return std::nullopt;
}

void fill_efficiency(ScalingCurve& curve) {
  const auto first = std::find_if(curve.points.begin(), curve.points.end(),
                                  [](const ScalingPoint& point) { return point.result.told(); });
  if (first == curve.points.end()) return;
  const double base = first->result.tokens_per_second_per_gpu;
  for (ScalingPoint& point : curve.points)
    point.efficiency = point.result.tokens_per_second_per_gpu / base;
}

Job job_of(const ScalingSpecification& specification) {
  Job job{.specification = specification, .nodes_for = {}};
  const ScenarioSources sources{specification.path, specification.overrides};
  const Scenario scenario = specification.layout == LayoutMode::best
                                ? load_workload(sources)
                                : load_scenario(specification.path, specification.overrides);
  const NodeRoom room = room_of(scenario.cluster);
  if (specification.layout == LayoutMode::best && scenario.asked_gpus_per_node == 0)
    job.nodes_for = [room](int gpus) { return nodes_for(room, gpus); };
  else
    job.nodes_for = [per_node = scenario.cluster.gpus_per_node()](int gpus) {
      return divide_up(gpus, per_node);
    };
  job.batch = scenario.layout.global_batch;
  if (specification.layout == LayoutMode::fixed)
    job.inner = scenario.layout.world_size() / scenario.layout.data_parallel;
  for (const int gpus : specification.gpus)
    if (gpus % job.inner != 0)
      refuse_scaling(
          specification.path,
          fmt::format("{} GPUs are no whole number of replicas of {} ranks", gpus, job.inner));
  return job;
}

}  // namespace

std::vector<ScalingCurve> scaling_curves(const ScalingSpecification& specification,
                                         const std::vector<ScalingKind>& kinds,
                                         const std::function<void()>& done,
                                         const Control& control) {
  Job job = job_of(specification);
  job.control.stop = control.stop;
  std::vector<ScalingCurve> curves;
  for (const ScalingKind kind : kinds) {
    ScalingCurve curve{.kind = kind, .points = {}, .communication_bound_from = {}};
    std::vector<std::vector<std::string>> points;
    for (const int gpus : specification.gpus) {
      points.push_back(job.overrides(kind, gpus));
      curve.points.push_back({gpus, job.batch_on(kind, gpus), {}, 0});
    }
    std::vector<PointResult> results =
        forecast_points(specification.path, points, specification.layout, done, control);
    for (std::size_t i = 0; i < results.size(); ++i) {
      curve.points[i].result = std::move(results[i]);
      if (!job.divides(kind, curve.points[i].gpus))
        curve.points[i].result = no_result("the batch does not grow in whole sequences");
    }
    fill_efficiency(curve);
    curve.communication_bound_from = communication_bound_from(job, curve);
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace sim
