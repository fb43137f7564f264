#include "sim/scores/scatter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/timeline/svg.hpp"

namespace sim {
namespace {

constexpr int left = 70;
constexpr int top = 30;
constexpr int side = 560;  // of the square
constexpr int legend_left = left + side + 24;

bool drawn(const RowResult& row) {
  return row.prediction && row.row.has_time() && row.prediction->time > Duration{};
}

// Both axes show the same whole decades, so that the diagonal is a diagonal.
struct Scale {
  int first = 0;  // power of ten
  int last = 1;

  explicit Scale(std::span<const SetResult> results) {
    double least = std::numeric_limits<double>::max(), most = 0;
    for (const SetResult& result : results) {
      for (const RowResult& row : result.rows) {
        if (!drawn(row)) continue;
        for (const Duration time : {row.row.measured, row.prediction->time}) {
          least = std::min(least, to_seconds(time));
          most = std::max(most, to_seconds(time));
        }
      }
    }
    if (most == 0) return;
    first = static_cast<int>(std::floor(std::log10(least)));
    last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(most))));
  }
  double place(double seconds) const {
    return side * (std::log10(seconds) - first) / (last - first);
  }
  double x(double seconds) const { return left + place(seconds); }
  double y(double seconds) const { return top + side - place(seconds); }
};

std::string axes(const Scale& scale) {
  std::string svg;
  for (int decade = scale.first; decade <= scale.last; ++decade) {
    const double seconds = std::pow(10.0, decade);
    const double x = scale.x(seconds);
    const double y = scale.y(seconds);
    svg += fmt::format(R"(<path d="M{:.1f} {}v{}M{} {:.1f}h{}" stroke="#ddd"/>)", x, top, side,
                       left, y, side);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>", x,
                       top + side + 16, seconds);
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n", left - 6,
                       y + 4, seconds);
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">measured, s</text>\n",
                     left + side / 2, top + side + 34);
  svg += fmt::format(
      "<text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">predicted, s"
      "</text>\n",
      top + side / 2);
  return svg;
}

// The lines on which predicted is `factor` times measured, within the square.
std::string diagonal(const Scale& scale, double factor, const char* colour) {
  const double low = std::pow(10.0, scale.first);
  const double high = std::pow(10.0, scale.last);
  const double from = factor < 1 ? low / factor : low;
  const double to = factor < 1 ? high : high / factor;
  return fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\" fill=\"none\"/>\n",
                     scale.x(from), scale.y(from * factor), scale.x(to), scale.y(to * factor),
                     colour);
}

// The points of a set, told from those of others by colour; where colours come again, by shape.
struct Mark {
  const char* colour;
  bool square;
  explicit Mark(std::size_t set)
      : colour{svg_colour(set)}, square{set / svg_colours.size() % 2 == 1} {}

  std::string at(double x, double y, double radius, bool hollow,
                 const std::string& title = {}) const {
    const char* fill = hollow ? "none" : colour;
    if (square)
      return fmt::format(
          R"(<rect x="{:.1f}" y="{:.1f}" width="{}" height="{}" fill="{}" stroke="{}">{}</rect>)",
          x - radius, y - radius, 2 * radius, 2 * radius, fill, colour, title);
    return fmt::format(
        R"(<circle cx="{:.1f}" cy="{:.1f}" r="{}" fill="{}" stroke="{}">{}</circle>)", x, y, radius,
        fill, colour, title);
  }
};

std::string points(const SetResult& result, const Scale& scale, const Mark& mark) {
  std::string svg;
  for (const RowResult& row : result.rows) {
    if (!drawn(row)) continue;
    svg += mark.at(scale.x(to_seconds(row.row.measured)), scale.y(to_seconds(row.prediction->time)),
                   2.5, row.row.use == RowUse::fit,
                   fmt::format("<title>{} {:+.1f}%</title>", svg_escaped(row.row.id),
                               row.error() * 100)) +
           "\n";
  }
  return svg;
}

}  // namespace

std::string scatter_svg(std::span<const SetResult> results) {
  const Scale scale{results};
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" )"
      R"(font-family="sans-serif" font-size="11"><rect width="{0}" height="{1}" fill="#fff"/>)"
      "\n<text x=\"{2}\" y=\"18\" font-size=\"14\">Predicted against measured: time of a step"
      "</text>\n",
      legend_left + 230, top + side + 50, left);
  svg += axes(scale);
  svg += diagonal(scale, 1, "#888") + diagonal(scale, 0.9, "#ccc") + diagonal(scale, 1.1, "#ccc");
  int y = top + 14;
  for (std::size_t set = 0; set < results.size(); ++set) {
    const SetResult& result = results[set];
    if (std::none_of(result.rows.begin(), result.rows.end(), drawn)) continue;
    const Mark mark{set};
    svg += points(result, scale, mark);
    svg += mark.at(legend_left, y - 4, 4, false);
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}{}</text>\n", legend_left + 10, y,
                       svg_escaped(result.set.name),
                       result.score.median_abs_error
                           ? fmt::format(", median {:.1f}%", *result.score.median_abs_error * 100)
                           : "");
    y += 18;
  }
  svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#666\">hollow: rows to fit on</text>\n",
                     legend_left - 4, y + 6);
  svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#666\">grey lines: 10% off</text>\n",
                     legend_left - 4, y + 22);
  return svg + "</svg>\n";
}

}  // namespace sim
