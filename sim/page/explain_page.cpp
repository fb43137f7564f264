#include "sim/page/explain_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/base/table_text.hpp"
#include "sim/explain/explanation_sections.hpp"
#include "sim/explain/waterfall_words.hpp"
#include "sim/page/html.hpp"
#include "sim/page/page.hpp"
#include "sim/page/scatter_chart.hpp"

namespace sim {
namespace {

constexpr std::size_t most_late_ranks = 12;
constexpr const char* slower_colour = "#d55e00";
constexpr const char* faster_colour = "#009e73";

std::string sentences_html(const std::vector<std::string>& sentences, const char* before) {
  std::string html;
  for (const std::string& sentence : sentences)
    html += fmt::format("<p>{}{}</p>\n", before, html_text(sentence));
  return html;
}

std::string causes_html(const Waterfall& waterfall) {
  std::string html;
  for (const std::string& cause : largest_causes(waterfall))
    html += fmt::format("<li>{}</li>\n", html_text(cause));
  return html.empty() ? html : "<ol>\n" + html + "</ol>\n";
}

std::string explained_headline(const Explanation& e) {
  std::string html = fmt::format("<p>{}{}{}</p>\n", html_text(e.maker.empty() ? "trace" : e.maker),
                                 e.device.empty() ? "" : ", ", html_text(e.device));
  if (!e.waterfall) {
    html += html_figures(
        {{"step", precise(e.variation.median), "median of those that count"},
         {"compute", share_text(e.mean[StepState::compute] / e.mean.step), {}},
         {"exposed communication", share_text(e.mean.exposed_communication() / e.mean.step), {}},
         {"idle", share_text(e.mean.idle() / e.mean.step), {}}});
    return html + sentences_html(e.notes, "Note: ");
  }
  const Waterfall& w = *e.waterfall;
  html += sentences_html(w.differences, "<strong>Not the same job:</strong> ");
  html += html_figures(
      {{"measured", precise(w.measured), fmt::format("rank {}, {}", w.rank.value, w.step)},
       {"forecast", precise(w.forecast), {}},
       {"difference", fmt::format("{:+.1f} %", 100 * w.slower()), {}},
       {"operators found", fmt::format("{:.1f} %", 100 * w.matched),
        "of the time of the step's kernels"}});
  html += causes_html(w);
  if (!w.late.empty()) html += "<p>" + html_text(w.late) + "</p>\n";
  return html + sentences_html(e.notes, "Note: ");
}

// From the forecast, part by part, to what was measured.
std::string waterfall_section(const Waterfall& w) {
  double highest = std::max(to_seconds(w.measured), to_seconds(w.forecast));
  double reached = to_seconds(w.forecast);
  for (const WaterfallPart& part : w.parts) {
    reached += to_seconds(part.time);
    highest = std::max(highest, reached);
  }
  if (highest <= 0) return {};
  std::vector<HtmlBar> bars{
      {"forecast", precise(w.forecast), to_seconds(w.forecast) / highest, {}, {}}};
  reached = to_seconds(w.forecast);
  for (const WaterfallPart& part : w.parts) {
    const double time = to_seconds(part.time);
    HtmlBar bar{.name = std::string{cause_words(part)},
                .value = (time >= 0 ? "+" : "") + seconds_text(time),
                .share = std::abs(time) / highest,
                .colour = time >= 0 ? slower_colour : faster_colour,
                .note = fmt::format("{:+.1f} %", 100 * time / to_seconds(w.measured))};
    bar.from = std::max(0.0, std::min(reached, reached + time) / highest);
    bars.push_back(std::move(bar));
    reached += time;
  }
  bars.push_back({"measured", precise(w.measured), to_seconds(w.measured) / highest, {}, {}});
  return html_bars("The parts sum to the difference exactly; percent of the measured step", bars);
}

struct StateColour {
  StepState state;
  const char* colour;
};
constexpr std::array state_colours{
    StateColour{StepState::compute, "#009e73"}, StateColour{StepState::transfer, "#d55e00"},
    StateColour{StepState::peer, "#cc79a7"}, StateColour{StepState::copy, "#56b4e9"}};

std::string states_section(const Explanation& e) {
  std::vector<HtmlBar> bars;
  for (const auto& state : words_of(StepState{})) {
    const double share = e.mean.step > 0 ? e.mean[state.value] / e.mean.step : 0;
    if (share < least_seen) continue;
    const auto colour = std::ranges::find(state_colours, state.value, &StateColour::state);
    bars.push_back({std::string{words_of_state(state.value, e.on_host)},
                    seconds_text(e.mean[state.value]), share,
                    colour == state_colours.end() ? "#999999" : colour->colour, share_text(share)});
  }
  return html_bars("Mean over ranks and steps; the parts sum to the step exactly", bars);
}

std::string late_section(const Explanation& e) {
  std::vector<HtmlBar> bars;
  for (const LateRank& late : e.late) {
    if (bars.size() == most_late_ranks || late.seconds < least_seen * e.mean.step) break;
    bars.push_back({fmt::format("rank {}", late.rank.value), seconds_text(late.seconds),
                    late.seconds / e.late.front().seconds, "#cc79a7",
                    fmt::format("{} wait{}; longer in {}", late.ranks, late.ranks == 1 ? "s" : "",
                                longer_text(late, e.on_host))});
  }
  return bars.empty() ? std::string{}
                      : html_bars("Exposed waiting of a step, in sum over those that wait", bars);
}

std::string point_words(const RooflinePoint& point) {
  std::string words = point.name;
  if (!point.shape.empty()) words += " " + point.shape;
  words += fmt::format(": {:.3g} TFLOP/s, {:.3g} FLOP/byte", point.flop_rate() / 1e12,
                       point.intensity());
  if (point.of_roof > 0) words += fmt::format(", {:.0f} % of the roof", 100 * point.of_roof);
  return words;
}

// The device's lines over the intensities of an axis: what the memory allows, up to the peak.
ScatterLine roof_line(const RooflineLine& line, Bandwidth memory, const ScatterAxis& axis) {
  const double peak = line.peak.in_flops_per_second() / 1e12;
  const double bytes = memory.in_bytes_per_second() / 1e12;
  const double ridge = std::clamp(peak / bytes, axis.low, axis.high);
  return {{{axis.low, std::min(peak, axis.low * bytes)},
           {ridge, std::min(peak, ridge * bytes)},
           {axis.high, std::min(peak, axis.high * bytes)}},
          fmt::format("{} {:.3g} TFLOP/s", word(line.dtype), peak)};
}

std::string roofline_section(const Roofline& roofline) {
  ScatterChart chart{.title = "Achieved rates of kernels over their arithmetic intensity"};
  std::vector<double> xs, ys;
  for (const RooflinePoint& point : roofline.points) {
    if (point.flops <= 0 || point.bytes <= 0 || point.seconds <= 0) continue;
    chart.points.push_back({point.intensity(), point.flop_rate() / 1e12,
                            point.memory_bound ? PointMark::ring : PointMark::disc,
                            point_words(point)});
    xs.push_back(chart.points.back().x);
    ys.push_back(chart.points.back().y);
  }
  if (xs.empty()) return {};
  for (const RooflineLine& line : roofline.compute)
    ys.push_back(line.peak.in_flops_per_second() / 1e12);
  chart.x = axis_over("arithmetic intensity (FLOP per byte)", true, xs);
  chart.y = axis_over("achieved rate (TFLOP/s)", true, ys);
  for (const RooflineLine& line : roofline.compute)
    if (roofline.memory.in_bytes_per_second() > 0) {
      ScatterLine roof = roof_line(line, roofline.memory, chart.x);
      for (auto& [x, y] : roof.points)
        y = std::max(y, chart.y.low);
      chart.lines.push_back(std::move(roof));
    }
  std::string below = "<p>Discs: bound by arithmetic. Rings: bound by memory. ";
  below += roofline.device.empty()
               ? "The device is not known, so that there are no lines of what it can do.</p>\n"
               : "Lines: the data sheet of " + html_text(roofline.device) + ".</p>\n";
  return scatter_chart_svg(chart) + below;
}

}  // namespace

std::string explain_page(const Explanation& explanation, const std::string& command) {
  HtmlPage page{.title = explanation.waterfall ? "Why the run is not its forecast"
                                               : "Where the time of a run goes",
                .lead = explained_headline(explanation)};
  const auto add = [&](const std::string& title, std::string body) {
    if (!body.empty()) page.sections.push_back({title, std::move(body)});
  };
  if (explanation.waterfall)
    add("From the forecast to the run", waterfall_section(*explanation.waterfall));
  add("Where the time of a step goes", states_section(explanation));
  add("Ranks that others wait for", late_section(explanation));
  add("Roofline", roofline_section(explanation.roofline));
  add("All figures", html_of_markdown(explanation_markdown(explanation)));
  page.json = explanation_json(explanation);
  page.command = command;
  return html_page(page);
}

}  // namespace sim
