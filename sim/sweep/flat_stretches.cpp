// Stretches of a swept parameter of the machine along which no step changes, and why.
#include <fmt/format.h>

#include <algorithm>

#include "sim/base/input_error.hpp"
#include "sim/forecast/unmoved.hpp"
#include "sim/sweep/sweep.hpp"

namespace sim {
namespace {

// Points that differ in the value of one axis alone lie this far apart.
std::size_t stride_of(const std::vector<Axis>& axes, std::size_t axis) {
  std::size_t stride = 1;
  for (std::size_t i = axis + 1; i < axes.size(); ++i)
    stride *= axes[i].values.size();
  return stride;
}

// Whether value `k` of the axis and the next one give the same step, whatever the others are.
bool same_step(const Sweep& sweep, std::size_t axis, std::size_t k) {
  const std::vector<Axis>& axes = sweep.specification.axes;
  const std::size_t stride = stride_of(axes, axis);
  const std::size_t count = axes[axis].values.size();
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    if (i / stride % count != k) continue;
    const PointResult& here = sweep.points[i];
    const PointResult& next = sweep.points[i + stride];
    if (!here.told() || !next.told() || here.step_time != next.step_time) return false;
  }
  return true;
}

// Why, at the value `k` of the axis and the first of all others.
std::string why(const Sweep& sweep, std::size_t axis, std::size_t k) {
  const SweepSpecification& of = sweep.specification;
  try {
    const Scenario scenario =
        load_scenario(of.path, overrides_at(of, k * stride_of(of.axes, axis)));
    return why_unmoved(scenario, make_plan(scenario.model, scenario.layout), of.axes[axis].key);
  } catch (const InputError&) {
    return "nothing waits for it";  // the layout that the scenario has itself is none here
  }
}

}  // namespace

std::vector<std::string> flat_stretches(const Sweep& sweep) {
  std::vector<std::string> notes;
  const std::vector<Axis>& axes = sweep.specification.axes;
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    const Axis& of = axes[axis];
    if (!of.key.starts_with("cluster.change.") && !of.key.starts_with("cluster.device.")) continue;
    for (std::size_t k = 0; k + 1 < of.values.size(); ++k) {
      std::size_t end = k;
      while (end + 1 < of.values.size() && same_step(sweep, axis, end))
        ++end;
      if (end == k) continue;
      notes.push_back(fmt::format("{} from {} to {} does not change the step: {}", of.key,
                                  of.values[k], of.values[end], why(sweep, axis, k)));
      k = end - 1;
    }
  }
  return notes;
}

}  // namespace sim
