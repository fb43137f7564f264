#include "sim/page/memory_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/base/table_text.hpp"
#include "sim/page/html.hpp"

namespace sim {
namespace {

constexpr int chart_columns = 300;
constexpr double chart_width = 900, chart_height = 260, chart_left = 60, chart_top = 12;
constexpr std::array area_colours{"#0072b2", "#56b4e9", "#009e73", "#e69f00",
                                  "#cc79a7", "#d55e00", "#999999", "#004d38"};

using Values = std::array<std::int64_t, counter_width>;

std::int64_t sum_of(const Values& values) {
  std::int64_t sum = 0;
  for (const std::int64_t value : values)
    sum += value;
  return sum;
}

// The instant of each column at which most is held.
std::vector<Values> fullest_by_column(const CounterSeries& series, Duration step) {
  std::vector<Values> columns(chart_columns);
  Values now{};
  std::size_t next = 0;
  for (int column = 0; column < chart_columns; ++column) {
    const TimePoint end{Duration{step.count() / chart_columns * (column + 1)}};
    Values most = now;
    for (; next < series.points.size() && series.points[next].at <= end; ++next) {
      now = series.points[next].values;
      if (sum_of(now) > sum_of(most)) most = now;
    }
    columns[static_cast<std::size_t>(column)] = most;
  }
  return columns;
}

std::vector<std::size_t> largest_first(const std::vector<Values>& columns, std::size_t count) {
  Values peak{};
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < count; ++c) {
    for (const Values& values : columns)
      peak[c] = std::max(peak[c], values[c]);
    if (peak[c] > 0) order.push_back(c);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return peak[a] > peak[b]; });
  return order;
}

struct Scale {
  double top = 1;  // MiB at the upper edge
  double x(int column) const { return chart_left + chart_width * column / chart_columns; }
  double y(double mebibytes) const {
    return chart_top + chart_height * (1 - std::min(1.0, mebibytes / top));
  }
};

std::string area(const std::vector<Values>& columns, const std::vector<std::size_t>& below,
                 std::size_t category, const Scale& scale, const char* colour,
                 std::string_view name) {
  std::string upper, lower;
  for (int column = 0; column < chart_columns; ++column) {
    const Values& values = columns[static_cast<std::size_t>(column)];
    double base = 0;
    for (const std::size_t under : below)
      base += static_cast<double>(values[under]);
    const double top = base + static_cast<double>(values[category]);
    upper += fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", scale.x(column), scale.y(top),
                         scale.x(column + 1), scale.y(top));
    lower = fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", scale.x(column + 1), scale.y(base),
                        scale.x(column), scale.y(base)) +
            lower;
  }
  return fmt::format("<polygon points=\"{}{}\" fill=\"{}\"><title>{}</title></polygon>\n", upper,
                     lower, colour, html_text(title_of(name)));
}

std::string axis(const Scale& scale, double capacity) {
  std::string svg;
  for (int i = 0; i <= 4; ++i) {
    const double value = scale.top * i / 4;
    svg += fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.0f}</text>"
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"grid\"/>\n",
        chart_left - 6, scale.y(value) + 4, value / 1024, chart_left, chart_left + chart_width,
        scale.y(value), scale.y(value));
  }
  svg += fmt::format(
      "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" class=\"limit\"/>"
      "<text x=\"{1}\" y=\"{3:.1f}\" text-anchor=\"end\">of the device</text>\n",
      chart_left, chart_left + chart_width, scale.y(capacity), scale.y(capacity) + 14);
  return svg;
}

}  // namespace

std::string memory_chart(const CounterSeries& series, Duration step, Bytes capacity) {
  const std::vector<Values> columns = fullest_by_column(series, step);
  const double device = static_cast<double>(capacity.count()) / (1 << 20);
  Scale scale{.top = device};
  for (const Values& values : columns)
    scale.top = std::max(scale.top, static_cast<double>(sum_of(values)));
  std::string svg = fmt::format(
      "<svg class=\"chart\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Memory in GiB over the "
      "step, by category\">\n",
      chart_left + chart_width + 4, chart_top + chart_height + 24);
  const std::vector<std::size_t> order = largest_first(columns, series.names.size());
  std::vector<std::size_t> below;
  std::string legend = "<ul class=\"legend\">";
  for (const std::size_t category : order) {
    const char* const colour = area_colours[below.size() % area_colours.size()];
    svg += area(columns, below, category, scale, colour, series.names[category]);
    std::int64_t most = 0;
    for (const Values& values : columns)
      most = std::max(most, values[category]);
    legend +=
        fmt::format("<li><span style=\"background:{}\"></span>{}, at most {:.2f} GiB</li>", colour,
                    html_text(title_of(series.names[category])), static_cast<double>(most) / 1024);
    below.push_back(category);
  }
  svg += axis(scale, device);
  svg += fmt::format(
      "<text x=\"{}\" y=\"{}\">0</text><text x=\"{}\" y=\"{}\" "
      "text-anchor=\"end\">{}</text>\n</svg>\n",
      chart_left, chart_top + chart_height + 18, chart_left + chart_width,
      chart_top + chart_height + 18, precise(step));
  return svg + legend + "</ul>\n";
}

}  // namespace sim
