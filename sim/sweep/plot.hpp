// Line plots and maps as SVG, written without a GUI.
#pragma once

#include <string>
#include <vector>

namespace sim {

struct PlotPoint {
  double x = 0, y = 0;
};
struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;
  bool guide = false;  // a thin grey line without marks, such as perfect scaling
};
struct LinePlot {
  std::string title, x_title, y_title;
  bool log_x = false, log_y = false;  // where all values are positive
  std::vector<std::string> x_names;   // values that are words stand at 0, 1, 2, ...
  std::vector<PlotLine> lines;
};
std::string line_plot_svg(const LinePlot& plot);

struct HeatMap {
  std::string title, x_title, y_title, value_title;
  std::vector<std::string> x_names, y_names;
  std::vector<double> values;      // row by row of y; NaN: none
  std::vector<std::string> texts;  // what stands in the cells
};
std::string heat_map_svg(const HeatMap& map);

}  // namespace sim
