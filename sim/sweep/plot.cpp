#include "sim/sweep/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "sim/timeline/svg.hpp"

namespace sim {
namespace {

constexpr int plot_left = 90, plot_top = 40, plot_width = 620, plot_height = 380, plot_bottom = 60,
              plot_legend = 210;

// One axis in its own units, onto pixels.
struct Scale {
  double least = 0, most = 1;
  bool log = false;

  double part(double value) const {
    return log ? std::log(value / least) / std::log(most / least)
               : (value - least) / (most - least);
  }
};

// Steps of 1, 2 or 5 times a power of ten; on a logarithmic axis over many decades, of ten alone.
std::vector<double> ticks(const Scale& scale) {
  std::vector<double> all;
  if (scale.log) {
    const bool decades = scale.most / scale.least > 1000;
    const int first = static_cast<int>(std::floor(std::log10(scale.least)));
    const int last = static_cast<int>(std::floor(std::log10(scale.most)));
    for (int power = first; power <= last; ++power)
      for (const double digit : {1.0, 2.0, 5.0})
        if (const double at = std::pow(10, power) * digit;
            (digit == 1 || !decades) && at >= scale.least && at <= scale.most)
          all.push_back(at);
    return all;
  }
  const double rough = (scale.most - scale.least) / 6;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double digit = rough / power;
  const double step = power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
  const double first = std::ceil(scale.least / step);
  for (int i = 0; i < 12 && (first + i) * step <= scale.most + step * 1e-6; ++i)
    all.push_back((first + i) * step);
  return all;
}

Scale scale_of(const LinePlot& plot, double PlotPoint::*member, bool log) {
  double least = std::numeric_limits<double>::max();
  double most = std::numeric_limits<double>::lowest();
  for (const PlotLine& line : plot.lines) {
    for (const PlotPoint& point : line.points) {
      least = std::min(least, point.*member);
      most = std::max(most, point.*member);
    }
  }
  if (least > most) return {};
  if (log && least > 0) {
    if (least == most) return {least / 2, most * 2, true};
    return {least, most, true};
  }
  if (member == &PlotPoint::y) least = std::min(least, 0.0);
  if (least == most) most = least + 1;
  return {least, most, false};
}

struct Axes {
  Scale x, y;
  double px(double value) const { return plot_left + plot_width * x.part(value); }
  double py(double value) const { return plot_top + plot_height * (1 - y.part(value)); }
};

std::string head(int right, int below, const std::string& title) {
  return fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
      R"(font-family="sans-serif" font-size="12"><rect width="{0}" height="{1}" fill="#fff"/>)"
      "\n<text x=\"{2}\" y=\"22\" font-size=\"15\">{3}</text>\n",
      right, below, plot_left, svg_escaped(title));
}

std::string titles(const std::string& x_title, const std::string& y_title) {
  return fmt::format(
      "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n<text transform=\"translate(20 "
      "{}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      plot_left + plot_width / 2, plot_top + plot_height + 44, svg_escaped(x_title),
      plot_top + plot_height / 2, svg_escaped(y_title));
}

std::string x_tick(double at, const std::string& text) {
  return fmt::format(
      "<path d=\"M{0:.1f} {1}v{2}\" stroke=\"#ddd\"/><text x=\"{0:.1f}\" y=\"{3}\" "
      "text-anchor=\"middle\">{4}</text>\n",
      at, plot_top, plot_height, plot_top + plot_height + 18, svg_escaped(text));
}

// A few values are named themselves; many by round figures between them.
std::vector<double> x_ticks(const LinePlot& plot, const Scale& scale) {
  constexpr std::size_t few = 12;
  std::set<double> values;
  for (const PlotLine& line : plot.lines)
    for (const PlotPoint& point : line.points)
      values.insert(point.x);
  if (values.size() > few) return ticks(scale);
  return {values.begin(), values.end()};
}

std::string grid(const LinePlot& plot, const Axes& axes) {
  std::string svg;
  if (plot.x_names.empty())
    for (const double tick : x_ticks(plot, axes.x))
      svg += x_tick(axes.px(tick), fmt::format("{:g}", tick));
  for (std::size_t i = 0; i < plot.x_names.size(); ++i)
    svg += x_tick(axes.px(static_cast<double>(i)), plot.x_names[i]);
  for (const double tick : ticks(axes.y))
    svg += fmt::format(
        "<path d=\"M{0} {1:.1f}h{2}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:g}</text>\n",
        plot_left, axes.py(tick), plot_width, plot_left - 8, axes.py(tick) + 4, tick);
  return svg;
}

std::string drawn(const PlotLine& line, const Axes& axes, const char* colour) {
  std::string path;
  std::string marks;
  for (const PlotPoint& point : line.points) {
    const double x = axes.px(point.x);
    const double y = axes.py(point.y);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x, y);
    if (!line.guide)
      marks += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{:g}: {:g}</title>"
          "</circle>\n",
          x, y, colour, point.x, point.y);
  }
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"/>\n", path,
                     colour, line.guide ? 1 : 2) +
         marks;
}

// From pale to dark, one hue: order is seen without colours, too.
std::string shade(double part) {
  const auto mix = [&](double pale, double dark) {
    return static_cast<int>(std::lround(pale + (dark - pale) * part));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(240, 0), mix(246, 80), mix(252, 140));
}

}  // namespace

std::string line_plot_svg(const LinePlot& plot) {
  const Axes axes{scale_of(plot, &PlotPoint::x, plot.log_x && plot.x_names.empty()),
                  scale_of(plot, &PlotPoint::y, plot.log_y)};
  std::string svg =
      head(plot_left + plot_width + plot_legend, plot_top + plot_height + plot_bottom, plot.title);
  svg += grid(plot, axes) + titles(plot.x_title, plot.y_title);
  std::size_t next = 0;
  int y = plot_top + 12;
  for (const PlotLine& line : plot.lines) {
    const char* colour = line.guide ? "#999" : svg_colour(next++);
    svg += drawn(line, axes, colour);
    svg += fmt::format(
        "<path d=\"M{} {}h18\" stroke=\"{}\" stroke-width=\"2\"/><text x=\"{}\" y=\"{}\">{}</text>"
        "\n",
        plot_left + plot_width + 16, y - 4, colour, plot_left + plot_width + 40, y,
        svg_escaped(line.name));
    y += 18;
  }
  return svg + "</svg>\n";
}

std::string heat_map_svg(const HeatMap& map) {
  const std::size_t columns = map.x_names.size();
  const std::size_t rows = map.y_names.size();
  double least = std::numeric_limits<double>::max(), most = 0;
  for (const double value : map.values) {
    if (std::isnan(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  const double cell_x = static_cast<double>(plot_width) / static_cast<double>(columns);
  const double cell_y = static_cast<double>(plot_height) / static_cast<double>(rows);
  std::string svg = head(plot_left + plot_width + 40, plot_top + plot_height + plot_bottom,
                         fmt::format("{}: {}", map.title, map.value_title));
  svg += titles(map.x_title, map.y_title);
  for (std::size_t row = 0; row < rows; ++row) {
    // The first value below, as on an axis.
    const double y = plot_top + plot_height - static_cast<double>(row + 1) * cell_y;
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", plot_left - 8,
                       y + cell_y / 2 + 4, svg_escaped(map.y_names[row]));
    for (std::size_t column = 0; column < columns; ++column) {
      const std::size_t i = row * columns + column;
      const bool none = std::isnan(map.values[i]);
      const double part = none || most <= least ? 0 : (map.values[i] - least) / (most - least);
      const double x = plot_left + static_cast<double>(column) * cell_x;
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" "
          "stroke=\"#fff\"/><text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">{}"
          "</text>\n",
          x, y, cell_x, cell_y, none ? "#eee" : shade(part), x + cell_x / 2, y + cell_y / 2 + 4,
          part > 0.5 ? "#fff" : "#000", svg_escaped(map.texts[i]));
    }
  }
  for (std::size_t column = 0; column < columns; ++column)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       plot_left + (static_cast<double>(column) + 0.5) * cell_x,
                       plot_top + plot_height + 18, svg_escaped(map.x_names[column]));
  return svg + "</svg>\n";
}

}  // namespace sim
