// The plot of a sweep or of a set of scaling curves.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "sim/base/input_error.hpp"
#include "sim/report/numbers.hpp"
#include "sim/sweep/plot.hpp"
#include "sim/sweep/scaling.hpp"
#include "sim/sweep/sweep.hpp"

namespace sim {
namespace {

std::optional<double> leading_number(const std::string& text) {
  double value = 0;
  const char* begin = text.data() + (text.starts_with('x') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  return error == std::errc{} ? std::optional{value} : std::nullopt;
}

// The values of an axis as numbers, or nothing where one is a word.
std::optional<std::vector<double>> numbers_of(const Axis& axis) {
  std::vector<double> numbers;
  for (const std::string& value : axis.values) {
    const std::optional<double> number = leading_number(value);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// Values that span an order of magnitude, all above 0, are better told apart on a logarithmic axis.
bool spans_a_decade(const std::vector<double>& numbers) {
  const auto [least, most] = std::minmax_element(numbers.begin(), numbers.end());
  return *least > 0 && *most / *least >= 8;
}

std::string title_of_axis(const Axis& axis) {
  const std::string& first = axis.values.front();
  const std::size_t space = first.find(' ');
  return space == std::string::npos ? axis.key
                                    : fmt::format("{}, {}", axis.key, first.substr(space + 1));
}

HeatMap map_of(const Sweep& sweep) {
  const Axis& y = sweep.specification.axes[0];
  const Axis& x = sweep.specification.axes[1];
  HeatMap map{.title = sweep.specification.path,
              .x_title = x.key,
              .y_title = y.key,
              .value_title = "step time",
              .x_names = x.values,
              .y_names = y.values,
              .values = {},
              .texts = {}};
  for (const PointResult& point : sweep.points) {
    const bool usable = point.told() && point.fits();
    map.values.push_back(usable ? in_seconds(point.step_time)
                                : std::numeric_limits<double>::quiet_NaN());
    map.texts.push_back(usable ? precise(point.step_time) : point.told() ? "does not fit" : "-");
  }
  return map;
}

LinePlot lines_of(const Sweep& sweep) {
  const std::vector<Axis>& axes = sweep.specification.axes;
  const std::optional<std::vector<double>> numbers = numbers_of(axes[0]);
  LinePlot plot{.title = sweep.specification.path,
                .x_title = title_of_axis(axes[0]),
                .y_title = "step time, s",
                .log_x = numbers && spans_a_decade(*numbers),
                .log_y = false,
                .x_names = numbers ? std::vector<std::string>{} : axes[0].values,
                .lines = {}};
  const std::size_t lines = axes.size() == 2 ? std::max<std::size_t>(1, axes[1].values.size()) : 1;
  for (std::size_t line = 0; line < lines; ++line)
    plot.lines.push_back({axes.size() == 2 ? axes[1].values[line] : "step time", {}, false});
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const PointResult& point = sweep.points[i];
    if (!point.told() || !point.fits()) continue;
    const std::size_t at = i / lines;
    plot.lines[i % lines].points.push_back(
        {numbers ? (*numbers)[at] : static_cast<double>(at), in_seconds(point.step_time)});
  }
  for (PlotLine& line : plot.lines)
    std::sort(line.points.begin(), line.points.end(),
              [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; });
  return plot;
}

}  // namespace

std::string sweep_svg(const Sweep& sweep) {
  const std::vector<Axis>& axes = sweep.specification.axes;
  if (axes.size() > 2)
    throw InputError{SourcePosition{"--plot", 0, 0},
                     fmt::format("a plot shows one or two keys, this sweep has {}", axes.size())};
  const bool map = axes.size() == 2 && axes[0].values.size() >= 3 && axes[1].values.size() >= 3 &&
                   numbers_of(axes[0]) && numbers_of(axes[1]);
  return map ? heat_map_svg(map_of(sweep)) : line_plot_svg(lines_of(sweep));
}

std::string scaling_svg(const std::vector<ScalingCurve>& curves) {
  LinePlot plot{.title = "Scaling",
                .x_title = "GPUs",
                .y_title = "tokens per second",
                .log_x = true,
                .log_y = true,
                .x_names = {},
                .lines = {}};
  PlotLine perfect{"perfect", {}, true};
  for (const ScalingCurve& curve : curves) {
    PlotLine line{std::string{word(curve.kind)}, {}, false};
    for (const ScalingPoint& point : curve.points) {
      if (!point.result.told()) continue;
      line.points.push_back({static_cast<double>(point.gpus), point.result.tokens_per_second});
    }
    if (!line.points.empty() && perfect.points.empty()) {
      const PlotPoint first = line.points.front();
      const PlotPoint last = line.points.back();
      perfect.points = {first, {last.x, first.y * last.x / first.x}};
    }
    plot.lines.push_back(std::move(line));
  }
  plot.lines.push_back(std::move(perfect));
  return line_plot_svg(plot);
}

}  // namespace sim
