// Points over two axes as a picture (SVG).
#pragma once

#include <string>
#include <vector>

namespace sim {

struct ScatterAxis {
  std::string title{};  // with the unit
  bool logarithmic = false;
  double low = 0, high = 1;  // at its ends; above 0 where it is logarithmic
};

// PointMark is the form of a point, so that kinds are not told apart by colour alone.
enum class PointMark { disc, ring, square };

struct ScatterPoint {
  double x = 0, y = 0;
  PointMark mark = PointMark::disc;
  std::string title{};  // shown under the mouse, and read to those who do not see
};

// ScatterLine joins its points, in their order.
struct ScatterLine {
  std::vector<std::pair<double, double>> points{};
  std::string title{};  // beside its last point; empty: none
};

struct ScatterChart {
  std::string title{};  // for those who do not see
  ScatterAxis x{}, y{};
  std::vector<ScatterPoint> points{};
  std::vector<ScatterLine> lines{};
};

// axis_over() spans the values with a little room; a logarithmic one from power of ten to power
// of ten. REQUIRES: `values` is not empty, and above 0 where the axis is logarithmic.
ScatterAxis axis_over(std::string title, bool logarithmic, const std::vector<double>& values);

std::string scatter_chart_svg(const ScatterChart& chart);

}  // namespace sim
