#include "sim/page/search_page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/table_text.hpp"
#include "sim/page/html.hpp"
#include "sim/page/page.hpp"
#include "sim/page/part_colours.hpp"
#include "sim/page/scatter_chart.hpp"

namespace sim {
namespace {

double gib_of(Bytes bytes) {
  return static_cast<double>(bytes.count()) / (1 << 30);
}

std::string search_headline(const SearchResult& result) {
  std::string html =
      fmt::format("<p>{}; {} valid layouts, {} simulated</p>\n", html_text(result.device),
                  grouped(result.counts.legal), grouped(result.counts.simulated));
  const RankedLayout* const best = result.favourite();
  if (!best) return html + "<p>" + html_text(result.nothing_fits) + "</p>\n";
  const Duration step = best->evaluation.step_time;
  const std::string steps =
      best->interval ? range_text(best->interval->shortest(step), best->interval->longest(step))
                     : std::string{};
  html += html_figures({{"step time of the best", precise(step), steps},
                        {"tokens/s per GPU", significant(best->tokens_per_second_per_gpu), {}},
                        {"MFU", fmt::format("{:.1f} %", 100 * best->mfu), {}},
                        {"memory of the fullest GPU",
                         fmt::format("{:.1f} of {:.1f} GiB", gib_of(best->evaluation.memory),
                                     gib_of(result.capacity)),
                         {}}});
  html += fmt::format("<p>Best layout: {}</p>\n", html_text(describe(*best, result.node_gpus)));
  if (!result.comparison.empty()) html += "<p>" + html_text(result.comparison) + "</p>\n";
  if (!result.complete)
    html += "<p>Stopped early: layouts that nobody looked at may be faster.</p>\n";
  return html;
}

std::string ranked_section(const SearchResult& result, const std::vector<RankedLayout>& layouts) {
  double longest = 0;
  for (const RankedLayout& one : layouts)
    longest = std::max(longest, in_seconds(one.evaluation.step_time));
  std::vector<HtmlStack> stacks;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const RankedLayout& one = layouts[i];
    HtmlStack stack{.name = fmt::format("{}. {}", i + 1, describe(one, result.node_gpus)),
                    .value = precise(one.evaluation.step_time)};
    for (std::size_t p = 0; p < breakdown_fields.size(); ++p) {
      const std::string title{breakdown_fields[p].title};
      const Duration time = one.breakdown.*breakdown_fields[p].member;
      if (time.count() > 0 && longest > 0)
        stack.parts.push_back({title, in_seconds(time) / longest, part_colours[p],
                               fmt::format("{} {}", title, precise(time))});
    }
    stacks.push_back(std::move(stack));
  }
  return html_stacks("Mean over the GPUs; \"All figures\" has the parts as numbers", stacks);
}

struct FrontPoint {
  double x = 0, step = 0;
  PointMark mark = PointMark::disc;
  std::string layout{};
};

// Points over `x`; the front is joined. Empty: there are not two points.
std::string front_chart(const std::string& title, const std::string& x,
                        const std::vector<FrontPoint>& points) {
  if (points.size() < 2) return {};
  std::vector<double> xs, ys;
  ScatterChart chart{.title = title};
  ScatterLine front;
  for (const FrontPoint& point : points) {
    xs.push_back(point.x);
    ys.push_back(point.step);
    chart.points.push_back(
        {point.x, point.step, point.mark,
         fmt::format("{}: {:.4g} s, {} {:.4g}", point.layout, point.step, x, point.x)});
    if (point.mark == PointMark::ring) front.points.emplace_back(point.x, point.step);
  }
  std::sort(front.points.begin(), front.points.end());
  chart.lines.push_back(std::move(front));
  chart.x = axis_over(x, false, xs);
  chart.y = axis_over("step time (s)", false, ys);
  return scatter_chart_svg(chart);
}

std::string memory_fronts(const SearchResult& result) {
  std::vector<FrontPoint> points;
  const auto add = [&](const auto& layouts, PointMark mark) {
    for (const auto& one : layouts)
      points.push_back({gib_of(one.evaluation.memory), in_seconds(one.evaluation.step_time), mark,
                        describe(one, result.node_gpus)});
  };
  add(result.best, PointMark::disc);
  add(result.within_margin, PointMark::square);
  add(result.memory_front, PointMark::ring);
  std::string chart =
      front_chart("Step time against memory", "memory of the fullest GPU (GiB)", points);
  if (!chart.empty())
    chart += fmt::format(
        "<p>Discs: the ranked layouts. Rings, joined: the fastest that need no more memory{}.</p>"
        "\n",
        result.within_margin.empty() ? "" : ". Squares: faster, but within the margin of memory");
  return chart;
}

std::string gpu_fronts(const SearchResult& result) {
  std::vector<FrontPoint> points;
  for (const FrontLayout& one : result.gpus_front)
    points.push_back({static_cast<double>(one.layout.world_size()),
                      in_seconds(one.evaluation.step_time), PointMark::ring,
                      describe(one, result.node_gpus)});
  return front_chart("Step time against GPUs", "GPUs", points);
}

}  // namespace

std::string search_page(const SearchResult& result, const std::string& command) {
  HtmlPage page{.title = result.title, .lead = search_headline(result)};
  const auto add = [&](const std::string& title, std::string body) {
    if (!body.empty()) page.sections.push_back({title, std::move(body)});
  };
  if (!result.best.empty()) add("Best layouts", ranked_section(result, result.best));
  if (!result.within_margin.empty())
    add("Faster, but within the margin of memory", ranked_section(result, result.within_margin));
  add("Step time against memory", memory_fronts(result));
  add("Step time against GPUs", gpu_fronts(result));
  add("All figures", html_of_markdown(search_markdown(result)));
  page.json = search_json(result);
  page.command = command;
  return html_page(page);
}

}  // namespace sim
