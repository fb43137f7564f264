#include "sim/page/scatter_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/page/html.hpp"

namespace sim {
namespace {

constexpr double scatter_width = 900, scatter_height = 340;
constexpr double plot_left = 74, plot_right = 884, plot_top = 14, plot_bottom = 286;

double along(const ScatterAxis& axis, double value) {
  if (axis.logarithmic)
    return (std::log10(value) - std::log10(axis.low)) /
           (std::log10(axis.high) - std::log10(axis.low));
  return (value - axis.low) / (axis.high - axis.low);
}

double at_x(const ScatterChart& chart, double value) {
  return plot_left + (plot_right - plot_left) * along(chart.x, value);
}

double at_y(const ScatterChart& chart, double value) {
  return plot_bottom - (plot_bottom - plot_top) * along(chart.y, value);
}

// A step of 1, 2 or 5 times a power of ten: about five of them fill the axis.
double tick_step(const ScatterAxis& axis) {
  const double rough = (axis.high - axis.low) / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) return factor * power;
  return 10 * power;
}

std::vector<double> ticks_of(const ScatterAxis& axis) {
  std::vector<double> ticks;
  if (axis.logarithmic) {
    for (double tick = axis.low; tick <= axis.high * 1.001; tick *= 10)
      ticks.push_back(tick);
    return ticks;
  }
  const double step = tick_step(axis);
  const double first = std::ceil(axis.low / step - 1e-9);
  for (int i = 0; (first + i) * step <= axis.high * (1 + 1e-9); ++i)
    ticks.push_back((first + i) * step);
  return ticks;
}

std::string axes_of(const ScatterChart& chart) {
  std::string svg;
  for (const double tick : ticks_of(chart.x))
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4:g}</text>\n",
        at_x(chart, tick), plot_top, plot_bottom, plot_bottom + 18, tick);
  for (const double tick : ticks_of(chart.y))
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:g}</text>\n",
        plot_left, plot_right, at_y(chart, tick), plot_left - 8, at_y(chart, tick) + 4, tick);
  return svg + fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n"
                   "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}"
                   "</text>\n",
                   (plot_left + plot_right) / 2, scatter_height - 12, html_text(chart.x.title),
                   (plot_top + plot_bottom) / 2, html_text(chart.y.title));
}

std::string line_of(const ScatterChart& chart, const ScatterLine& line) {
  std::string points;
  for (const auto& [x, y] : line.points)
    points += fmt::format("{:.1f},{:.1f} ", at_x(chart, x), at_y(chart, y));
  std::string svg = fmt::format("<polyline class=\"line\" points=\"{}\"/>\n", points);
  if (line.title.empty() || line.points.empty()) return svg;
  const auto& [x, y] = line.points.back();
  return svg + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
                           at_x(chart, x), at_y(chart, y) - 6, html_text(line.title));
}

std::string point_of(const ScatterChart& chart, const ScatterPoint& point) {
  const double x = at_x(chart, point.x), y = at_y(chart, point.y);
  const std::string title = "<title>" + html_text(point.title) + "</title>";
  if (point.mark == PointMark::square)
    return fmt::format(
        "<rect class=\"point ring\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\">{}"
        "</rect>\n",
        x - 5, y - 5, title);
  return fmt::format("<circle class=\"point{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"6\">{}</circle>\n",
                     point.mark == PointMark::ring ? " ring" : "", x, y, title);
}

}  // namespace

ScatterAxis axis_over(std::string title, bool logarithmic, const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (logarithmic)
    return {std::move(title), true, std::pow(10, std::floor(std::log10(*least))),
            std::pow(10, std::floor(std::log10(*most)) + 1)};
  const double room = std::max((*most - *least) * 0.08, std::abs(*most) * 0.02);
  const double low = *least - room;
  return {std::move(title), false, *least >= 0 ? std::max(0.0, low) : low,
          room > 0 ? *most + room : low + 1};
}

std::string scatter_chart_svg(const ScatterChart& chart) {
  std::string svg =
      fmt::format("<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n",
                  scatter_width, scatter_height, html_text(chart.title));
  svg += axes_of(chart);
  for (const ScatterLine& line : chart.lines)
    svg += line_of(chart, line);
  for (const ScatterPoint& point : chart.points)
    svg += point_of(chart, point);
  return svg + "</svg>\n";
}

}  // namespace sim
