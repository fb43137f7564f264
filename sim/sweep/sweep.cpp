#include "sim/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "sim/base/input_error.hpp"
#include "sim/scenario/sources.hpp"

namespace sim {
namespace {

void refuse(const std::string& path, const std::string& why) {
  throw InputError{SourcePosition{path, 0, 0}, why};
}

void check_axes(const SweepSpecification& sweep) {
  if (sweep.axes.empty())
    refuse(sweep.path,
           "nothing to sweep: give --over KEY=VALUES, or a section 'sweep' with 'over'");
  std::set<std::string> keys;
  for (const Axis& axis : sweep.axes)
    if (!keys.insert(axis.key).second) refuse(sweep.path, axis.key + " is swept twice");
  if (point_count(sweep.axes) > most_points)
    refuse(sweep.path, fmt::format("the grid has more than {} points", most_points));
}

}  // namespace

SweepSpecification load_sweep(const std::string& path, const std::vector<std::string>& overrides,
                              const std::vector<std::string>& over, bool best) {
  SweepSpecification sweep{.path = path, .overrides = {}, .axes = {}};
  const ScenarioSources sources{path, overrides};
  const Layered section = sources.only_section("sweep");
  sweep.layout = section.word_or("layout", LayoutMode::fixed);
  if (const ObjectReader* holder = section.holder("over")) {
    const std::vector<Axis> axes = read_axes(holder->object("over"));
    if (over.empty()) sweep.axes = axes;
  }
  sources.finish();
  if (best) sweep.layout = LayoutMode::best;
  for (const std::string& option : over)
    sweep.axes.push_back(parse_axis(option));
  // What --set says of the sweep itself is read; the rest belongs to every point.
  for (const std::string& text : overrides)
    if (!text.starts_with("sweep.")) sweep.overrides.push_back(text);
  check_axes(sweep);
  return sweep;
}

Sweep run_sweep(const SweepSpecification& specification, const std::function<void()>& done) {
  std::vector<std::vector<std::string>> points(point_count(specification.axes));
  for (std::uint64_t i = 0; i < points.size(); ++i) {
    points[i] = specification.overrides;
    for (std::string& text : assignments(specification.axes, i))
      points[i].push_back(std::move(text));
  }
  Sweep sweep{specification,
              forecast_points(specification.path, points, specification.layout, done)};
  if (std::none_of(sweep.points.begin(), sweep.points.end(),
                   [](const PointResult& point) { return point.told(); }))
    refuse(specification.path,
           fmt::format("no point can be forecast; the first: {}", sweep.points.front().problem));
  return sweep;
}

}  // namespace sim
