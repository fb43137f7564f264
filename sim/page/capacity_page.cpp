#include "sim/page/capacity_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "sim/base/table_text.hpp"
#include "sim/page/html.hpp"
#include "sim/page/page.hpp"
#include "sim/page/scatter_chart.hpp"

namespace sim {
namespace {

constexpr std::array cluster_marks{PointMark::disc, PointMark::ring, PointMark::square};
constexpr std::array mark_words{"discs", "rings", "squares"};

std::string answers_html(const CapacityPlan& plan) {
  std::vector<HtmlFigure> figures;
  for (const CapacityAnswer& answer : plan.answers) {
    const CapacityPoint& point = plan.points[answer.point];
    std::string below = point.run ? fmt::format("{} days", significant(point.days()))
                                  : precise(point.best.evaluation.step_time) + " a step";
    if (point.cost)
      below += fmt::format(", {} {}", significant(*point.cost), plan.wish.prices.currency);
    figures.push_back({std::string{goal_words(answer.goal, plan.wish.deadline.has_value())},
                       fmt::format("{} x {}", grouped(point.gpus), point.cluster),
                       std::move(below)});
  }
  std::string html = html_figures(figures);
  if (!plan.closest.empty()) html += "<p>" + html_text(plan.closest) + "</p>\n";
  if (!plan.measure.empty()) html += "<p>" + html_text(plan.measure) + "</p>\n";
  return html;
}

// Days over the rent, or over GPU-hours where no price is given.
std::string front_section(const CapacityPlan& plan) {
  ScatterChart chart{.title = "Days of the run over what it costs"};
  std::map<std::string, std::size_t> clusters;
  std::vector<double> xs, ys;
  bool priced = true;
  for (const CapacityPoint& point : plan.points)
    priced = priced && point.cost.has_value();
  for (const CapacityPoint& point : plan.points) {
    if (!point.run || !point.run->rented.ends()) continue;
    const std::size_t kind = clusters.emplace(point.cluster, clusters.size()).first->second;
    const double x = point.price();
    chart.points.push_back({x, point.days(), cluster_marks[kind % cluster_marks.size()],
                            fmt::format("{} x {}: {} days, {}", point.gpus, point.cluster,
                                        significant(point.days()), point.layout)});
    xs.push_back(x);
    ys.push_back(point.days());
  }
  if (xs.size() < 2) return {};
  ScatterLine front;
  for (const std::size_t i : plan.front)
    if (priced) front.points.emplace_back(plan.points[i].price(), plan.points[i].days());
  chart.lines.push_back(std::move(front));
  chart.x = axis_over(priced ? fmt::format("rent ({})", plan.wish.prices.currency) : "GPU-hours",
                      false, xs);
  chart.y = axis_over("days", true, ys);
  std::string kinds;
  for (const auto& [cluster, kind] : clusters)
    kinds += fmt::format("{}{}: {}", kinds.empty() ? "" : "; ",
                         mark_words[kind % mark_words.size()], html_text(cluster));
  return scatter_chart_svg(chart) + "<p>" + kinds + ".</p>\n";
}

}  // namespace

std::string capacity_page(const CapacityPlan& plan, const std::string& command) {
  HtmlPage page{.title = "Capacity for " + plan.model, .lead = answers_html(plan)};
  if (std::string front = front_section(plan); !front.empty())
    page.sections.push_back({"Time against cost", std::move(front)});
  page.sections.push_back({"All figures", html_of_markdown(capacity_markdown(plan))});
  page.json = capacity_json(plan);
  page.command = command;
  return html_page(page);
}

}  // namespace sim
