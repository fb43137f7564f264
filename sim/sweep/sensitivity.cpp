#include "sim/sweep/sensitivity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/input_error.hpp"
#include "sim/base/quantity.hpp"
#include "sim/sweep/machine_parameters.hpp"

namespace sim {
namespace {

// Up, unchanged, down. Unchanged, too, so that all three leave out the same measured curves.
using Triple = std::array<const PointResult*, 3>;

std::vector<std::string> scaled(const std::vector<std::string>& overrides,
                                const MachineParameter& parameter, double factor) {
  std::vector<std::string> all = overrides;
  // What the scenario changes by itself is changed from there.
  std::erase_if(all, [&](const std::string& text) {
    return std::any_of(parameter.keys.begin(), parameter.keys.end(),
                       [&](const std::string& key) { return text.starts_with(key + '='); });
  });
  for (std::size_t i = 0; i < parameter.keys.size(); ++i)
    all.push_back(
        fmt::format("{}={}", parameter.keys[i], scaled_text(parameter.values[i], factor)));
  return all;
}

// A side that the files refuse, such as an efficiency above 1, is left out.
Elasticity elasticity_of(const MachineParameter& parameter, const Triple& at, double by) {
  const auto& [more, same, less] = at;
  const PointResult& high = more->told() ? *more : *same;
  const PointResult& low = less->told() ? *less : *same;
  const double up = more->told() ? std::log(1 + by) : 0;
  const double down = less->told() ? std::log(1 - by) : 0;
  return {.parameter = parameter.name,
          .value = parameter.values.front(),
          .keys = parameter.keys,
          .value_of_one =
              std::log(to_seconds(high.step_time) / to_seconds(low.step_time)) / (up - down),
          .with_more = more->step_time,
          .with_less = less->step_time,
          .one_sided = !more->told() || !less->told()};
}

}  // namespace

Sensitivity sensitivity_of(const std::string& path, const std::vector<std::string>& overrides,
                           double by, const std::function<void()>& done) {
  const Scenario scenario = load_scenario(path, overrides);
  Sensitivity result{
      .path = path, .overrides = overrides, .by = by, .base = {}, .parameters = {}, .left_out = {}};
  const std::vector<MachineParameter> parameters =
      machine_parameters(scenario.cluster_path, scenario.changes);
  std::vector<std::vector<std::string>> points{overrides};
  for (const MachineParameter& parameter : parameters)
    for (const double factor : {1 + by, 1.0, 1 - by})
      points.push_back(scaled(overrides, parameter, factor));
  const std::vector<PointResult> results = forecast_points(path, points, LayoutMode::fixed, done);
  result.base = results.front();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Triple at{&results[3 * i + 1], &results[3 * i + 2], &results[3 * i + 3]};
    if (at[1]->told() && (at[0]->told() || at[2]->told()))
      result.parameters.push_back(elasticity_of(parameters[i], at, by));
    else
      result.left_out.push_back(fmt::format("{}: {}", parameters[i].name, at[0]->problem));
  }
  std::stable_sort(result.parameters.begin(), result.parameters.end(),
                   [](const Elasticity& a, const Elasticity& b) {
                     return std::abs(a.value_of_one) > std::abs(b.value_of_one);
                   });
  return result;
}

}  // namespace sim
