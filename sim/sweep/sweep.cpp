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
  // Overrides of the sweep itself are read here; the rest belongs to every point.
  for (const std::string& text : overrides)
    if (!text.starts_with("sweep.")) sweep.overrides.push_back(text);
  check_axes(sweep);
  return sweep;
}

std::vector<std::string> notes_of_points(const Sweep& sweep) {
  std::vector<std::string> lines;
  std::set<std::string> told;
  for (std::size_t i = 0; i < sweep.points.size(); ++i)
    for (const std::string& note : sweep.points[i].notes)
      if (told.insert(note).second)
        lines.push_back(
            fmt::format("{}: {}", fmt::join(assignments(sweep.specification.axes, i), ", "), note));
  return lines;
}

std::vector<std::string> overrides_at(const SweepSpecification& specification,
                                      std::uint64_t point) {
  std::vector<std::string> overrides = specification.overrides;
  for (std::string& text : assignments(specification.axes, point))
    overrides.push_back(std::move(text));
  return overrides;
}

Sweep sweep_of(const SweepSpecification& specification, std::vector<PointResult> points) {
  if (std::none_of(points.begin(), points.end(),
                   [](const PointResult& point) { return point.told(); }))
    refuse(specification.path,
           fmt::format("no point can be forecast; the first: {}", points.front().problem));
  Sweep sweep{specification, std::move(points)};
  sweep.notes = flat_stretches(sweep);
  return sweep;
}

Sweep run_sweep(const SweepSpecification& specification, const std::function<void()>& done,
                const Control& control) {
  std::vector<std::vector<std::string>> points;
  for (std::uint64_t i = 0; i < point_count(specification.axes); ++i)
    points.push_back(overrides_at(specification, i));
  return sweep_of(specification,
                  forecast_points(specification.path, points, specification.layout, done, control));
}

}  // namespace sim
