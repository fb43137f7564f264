#include "sim/sweep/plot.hpp"

#include <limits>

#include "tests/catch.hpp"

using namespace sim;

namespace {

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

}  // namespace

TEST_CASE("a line plot marks every point and names every line", "[sweep]") {
  LinePlot plot{.title = "t <1>", .x_title = "GPUs", .y_title = "s", .x_names = {}, .lines = {}};
  plot.lines.push_back({"a", {{1, 2}, {2, 1}}, false});
  plot.lines.push_back({"perfect", {{1, 2}, {2, 4}}, true});
  const std::string svg = line_plot_svg(plot);
  CHECK(count_of(svg, "<circle") == 2);
  CHECK(svg.find("t &lt;1>") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
}

TEST_CASE("plots of one value, of none and of words have axes, too", "[sweep]") {
  for (const bool log : {false, true}) {
    LinePlot plot{.title = "",
                  .x_title = "",
                  .y_title = "",
                  .log_x = log,
                  .log_y = log,
                  .x_names = {},
                  .lines = {{"a", {{4, 4}}, false}}};
    CHECK(line_plot_svg(plot).find("nan") == std::string::npos);
    plot.lines[0].points.clear();
    CHECK(line_plot_svg(plot).find("nan") == std::string::npos);
  }
  const LinePlot words{.title = "",
                       .x_title = "",
                       .y_title = "",
                       .x_names = {"none", "full"},
                       .lines = {{"a", {{0, 1}, {1, 2}}, false}}};
  CHECK(line_plot_svg(words).find(">full<") != std::string::npos);
}

TEST_CASE("a map shows what is missing", "[sweep]") {
  const HeatMap map{.title = "",
                    .x_title = "",
                    .y_title = "",
                    .value_title = "",
                    .x_names = {"1", "2"},
                    .y_names = {"3"},
                    .values = {1.5, std::numeric_limits<double>::quiet_NaN()},
                    .texts = {"1.5 s", "does not fit"}};
  const std::string svg = heat_map_svg(map);
  CHECK(svg.find("does not fit") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
}
