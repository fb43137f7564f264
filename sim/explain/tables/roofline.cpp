#include "sim/explain/tables/roofline.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "sim/explain/activity_class.hpp"

namespace sim {
namespace {

// Sizes tell kernels of one name apart, and bytes those without sizes.
using WorkKey = std::tuple<std::string, DType, AttentionPart, std::int64_t, std::int64_t,
                           std::int64_t, std::int64_t, double, std::int64_t>;

WorkKey key_of(const std::string& name, const Kernel& work) {
  return {name,       work.dtype,         work.part,         work.m, work.n, work.k,
          work.batch, work.flops.count(), work.bytes.count()};
}

class RooflineMaker {
 public:
  RooflineMaker(const TracedRun& run, const RunSteps& steps, const CountedSteps& counted)
      : run_{run}, steps_{steps}, counted_{counted} {}

  std::vector<RooflinePoint> points() {
    for (std::size_t r = 0; r < run_.ranks.size(); ++r)
      add_rank(r);
    const auto steps = static_cast<double>(std::max<std::size_t>(1, number_of_steps(counted_)));
    std::vector<RooflinePoint> points;
    for (auto& [key, point] : points_) {
      for (double* const sum : {&point.count, &point.seconds, &point.flops, &point.bytes})
        *sum /= steps;
      points.push_back(std::move(point));
    }
    return points;
  }

 private:
  void add_rank(std::size_t r) {
    const RunRank& rank = run_.ranks[r];
    std::map<std::int32_t, RooflinePoint*> issued;  // several kernels of one do its work once
    for (std::size_t i = 0; i < rank.device.size(); ++i) {
      const DeviceActivity& activity = rank.device[i];
      const std::int32_t step = steps_.ranks[r].step_of[i];
      if (step == not_told || !counted_[r][static_cast<std::size_t>(step)]) continue;
      if (activity.work < 0 || class_of_activity(activity) != ActivityClass::compute) continue;
      const Kernel& work = rank.works[static_cast<std::size_t>(activity.work)];
      if (work.bytes.count() <= 0) continue;
      RooflinePoint*& known = issued[activity.issuer];
      if (activity.issuer < 0 || !known) known = &add_operator(activity, work);
      known->seconds += to_seconds(activity.time());
    }
  }

  RooflinePoint& add_operator(const DeviceActivity& activity, const Kernel& work) {
    const std::string name = kernel_words(run_.names[activity.name]);
    RooflinePoint& point = points_[key_of(name, work)];
    point.name = name;
    point.category = category_of(activity.kind);
    if (work.kind == OpKind::gemm)
      point.shape = shape_text({.m = work.m, .n = work.n, .k = work.k, .batch = work.batch});
    point.dtype = work.dtype;
    point.count += 1;
    point.flops += work.flops.count();
    point.bytes += static_cast<double>(work.bytes.count());
    return point;
  }

  const TracedRun& run_;
  const RunSteps& steps_;
  const CountedSteps& counted_;
  std::map<WorkKey, RooflinePoint> points_;
};

void hold_against(const Device& device, Roofline& roofline) {
  roofline.device = device.name;
  roofline.memory = device.memory_bandwidth;
  std::set<DType> formats;
  for (RooflinePoint& point : roofline.points) {
    const GemmModel* const model = device.gemm_model(point.dtype);
    const double computing = model ? point.flops / model->peak.in_flops_per_second() : 0;
    const double moving = point.bytes / device.memory_bandwidth.in_bytes_per_second();
    point.memory_bound = computing <= moving;
    point.of_roof = point.seconds > 0 ? std::max(computing, moving) / point.seconds : 0;
    if (point.flops > 0) formats.insert(point.dtype);
  }
  for (const DType dtype : formats)
    if (const GemmModel* const model = device.gemm_model(dtype))
      roofline.compute.push_back({dtype, model->peak});
}

}  // namespace

Roofline roofline_of(const TracedRun& run, const RunSteps& steps, const CountedSteps& counted,
                     const Device* device) {
  Roofline made;
  made.points = RooflineMaker{run, steps, counted}.points();
  if (device) hold_against(*device, made);
  std::stable_sort(made.points.begin(), made.points.end(),
                   [](const RooflinePoint& a, const RooflinePoint& b) {
                     return a.seconds * (1 - a.of_roof) > b.seconds * (1 - b.of_roof);
                   });
  return made;
}

}  // namespace sim
