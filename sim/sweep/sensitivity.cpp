#include "sim/sweep/sensitivity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/base/input_error.hpp"
#include "sim/base/quantity.hpp"
#include "sim/forecast/unmoved.hpp"
#include "sim/sweep/machine_parameters.hpp"

namespace sim {
namespace {

// By one parameter: with more of it, with less, and where a side is missing, unchanged but read as
// a change, so that it leaves out the same measured curves.
struct Sides {
  PointResult more, less;
  std::optional<PointResult> same;
  bool complete() const { return more.told() && less.told(); }
  bool told() const { return complete() || (same->told() && (more.told() || less.told())); }
};

// A side that the files refuse, such as an efficiency above 1, is left out.
Elasticity elasticity_of(const MachineParameter& parameter, const Sides& at, double by) {
  const PointResult& high = at.more.told() ? at.more : *at.same;
  const PointResult& low = at.less.told() ? at.less : *at.same;
  const double up = at.more.told() ? std::log(1 + by) : 0;
  const double down = at.less.told() ? std::log(1 - by) : 0;
  return {.parameter = parameter.name,
          .value = parameter.values.front(),
          .keys = parameter.keys,
          .value_of_one =
              std::log(to_seconds(high.step_time) / to_seconds(low.step_time)) / (up - down),
          .with_more = at.more.step_time,
          .with_less = at.less.step_time,
          .unmoved = {},
          .one_sided = !at.complete()};
}

// Where a side takes as long as the step itself: which, and why.
std::string unmoved_text(const Elasticity& entry, const Sensitivity& all, const Scenario& scenario,
                         const Plan& plan) {
  const bool more = entry.with_more == all.base.step_time;
  const bool less = entry.with_less == all.base.step_time;
  if (!more && !less) return {};
  const double percent = all.by * 100;
  const std::string which = more && less
                                ? fmt::format("{:g} % more or less changes nothing", percent)
                            : more ? fmt::format("{:g} % more changes nothing", percent)
                                   : fmt::format("{:g} % less changes nothing", percent);
  // The last of the keys is the one that governs.
  return fmt::format("{}: {}", which, why_unmoved(scenario, plan, entry.keys.back()));
}

}  // namespace

Sensitivity sensitivity_of(const ScenarioInput& file, const std::vector<std::string>& overrides,
                           double by, const std::function<void()>& done, const Control& control) {
  const Scenario scenario = load_scenario(file.with(overrides));
  Sensitivity result{.path = file.path,
                     .overrides = overrides,
                     .by = by,
                     .base = {},
                     .parameters = {},
                     .left_out = {}};
  const std::vector<MachineParameter> parameters =
      machine_parameters(scenario.cluster_path, scenario.changes);
  const auto forecast = [&](const std::vector<std::vector<std::string>>& points) {
    return forecast_points(file, points, LayoutMode::fixed, done, control);
  };
  std::vector<std::vector<std::string>> points{overrides};
  for (const MachineParameter& parameter : parameters)
    for (const double factor : {1 + by, 1 - by})
      points.push_back(scaled(overrides, parameter, factor));
  std::vector<PointResult> results = forecast(points);
  result.base = results.front();
  std::vector<Sides> sides;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    sides.push_back({std::move(results[2 * i + 1]), std::move(results[2 * i + 2]), {}});

  std::vector<std::vector<std::string>> unchanged;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!sides[i].complete()) unchanged.push_back(scaled(overrides, parameters[i], 1.0));
  std::vector<PointResult> same = forecast(unchanged);
  auto next = same.begin();
  for (Sides& at : sides)
    if (!at.complete()) at.same = std::move(*next++);

  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (sides[i].told())
      result.parameters.push_back(elasticity_of(parameters[i], sides[i], by));
    else
      result.left_out.push_back(fmt::format("{}: {}", parameters[i].name, sides[i].more.problem));
  }
  const Plan plan = make_plan(scenario.model, scenario.layout);
  for (Elasticity& entry : result.parameters)
    entry.unmoved = unmoved_text(entry, result, scenario, plan);
  std::stable_sort(result.parameters.begin(), result.parameters.end(),
                   [](const Elasticity& a, const Elasticity& b) {
                     return std::abs(a.value_of_one) > std::abs(b.value_of_one);
                   });
  return result;
}

}  // namespace sim
