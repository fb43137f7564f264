#include "sim/page/simulate_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/table_text.hpp"
#include "sim/config/json_scan.hpp"
#include "sim/config/tree.hpp"
#include "sim/layout/layout_text.hpp"
#include "sim/page/html.hpp"
#include "sim/page/memory_chart.hpp"
#include "sim/page/page.hpp"
#include "sim/page/part_colours.hpp"
#include "sim/page/spans.hpp"

namespace sim {
namespace {

const char* memory_verdict(const Report& report) {
  if (!report.fits()) return "does not fit";
  if (report.fits_by_retries()) return "fits only with the allocator's retries";
  return report.memory_in_doubt() ? "may not fit" : "fits";
}

std::string headline(const Report& report) {
  const double rate = report.tokens_per_second_per_gpu;
  std::string steps, rates, shares, basis;
  if (report.interval) {
    const TimeInterval& interval = *report.interval;
    steps = range_text(interval.shortest(report.step_time), interval.longest(report.step_time));
    rates = fmt::format("{} to {}", significant(rate / interval.high),
                        significant(rate / interval.low));
    shares = fmt::format("{:.1f} to {:.1f} %", 100 * report.mfu / interval.high,
                         std::min(100.0, 100 * report.mfu / interval.low));
    basis = interval.own_runs > 0
                ? fmt::format("{:.0f} % of such runs lie in these ranges; anchored on {} own runs.",
                              100 * interval.level, interval.own_runs)
                : fmt::format(
                      "{:.0f} % of such runs lie in these ranges: so do {} measured runs of "
                      "{} published sets.",
                      100 * interval.level, grouped(interval.rows), interval.sets);
    if (interval.of_unknown_framework()) basis += fmt::format(" {}.", unnamed_text);
  }
  const StageMemory& worst = report.worst_memory();
  std::string html = fmt::format("<p>{} on {} x {}<br>{}</p>\n", html_text(report.model),
                                 grouped(report.ranks), html_text(report.device),
                                 html_text(layout_text(report.layout, LayoutForm::sentence)));
  html +=
      html_figures({{"step time", precise(report.step_time), steps},
                    {"tokens/s per GPU", significant(rate), rates},
                    {"MFU", fmt::format("{:.1f} %", 100 * report.mfu), shares},
                    {"memory of the fullest GPU",
                     fmt::format("{:.1f} of {:.1f} GiB", worst.total.gib(), worst.capacity.gib()),
                     memory_verdict(report)}});
  return html + (basis.empty() ? "" : "<p>" + html_text(basis) + "</p>\n");
}

std::string time_section(const Report& report) {
  std::vector<HtmlBar> bars;
  const double whole = in_seconds(report.step_time);
  for (std::size_t i = 0; i < breakdown_fields.size(); ++i) {
    const Duration time = report.breakdown.*breakdown_fields[i].member;
    if (time.count() == 0) continue;
    const double share = whole > 0 ? in_seconds(time) / whole : 0;
    bars.push_back({std::string{breakdown_fields[i].title}, precise(time), share, part_colours[i],
                    fmt::format("{:.1f} %", 100 * share)});
  }
  return html_bars(
      fmt::format("Mean of {} GPUs; the parts sum to the step exactly", grouped(report.ranks)),
      bars);
}

std::string help_section(const Report& report) {
  std::vector<HtmlBar> bars;
  const double whole = in_seconds(report.step_time);
  for (const WhatIf& what : report.what_if) {
    const double saved = whole > 0 ? 1 - in_seconds(what.step_time) / whole : 0;
    bars.push_back({title_of(word(what.resource)), precise(what.step_time), saved, "#0072b2",
                    fmt::format("-{:.1f} %", 100 * saved)});
  }
  return html_bars("The step if that were infinitely fast, simulated again", bars);
}

std::string timeline_section(const Forecast& made, const std::vector<RankId>& ranks) {
  return fmt::format(
      "<p>One rank of each pipeline stage. Drag or use the arrow keys to move, the wheel or + and "
      "- "
      "to zoom, Home to see all; n and p walk along a lane, Page Up and Page Down change it.</p>\n"
      "<div class=\"timeline\"><canvas id=\"timeline\" tabindex=\"0\" role=\"application\" "
      "aria-label=\"Timeline of the step\" aria-describedby=\"timeline-detail\"></canvas>"
      "<p id=\"timeline-detail\" role=\"status\">Click an operator to see what it is.</p>"
      "<ul class=\"legend\" id=\"timeline-legend\"></ul></div>\n"
      "<noscript><p>The timeline needs JavaScript; all figures are below without "
      "it.</p></noscript>\n"
      "<script type=\"application/json\" id=\"timeline-data\">{}</script>\n",
      timeline_json(*made.plan, made.timeline, ranks));
}

// The track of the stage whose memory is fullest; null: none is shown.
const RankTrack* fullest_track(const Forecast& made, const std::vector<RankId>& ranks) {
  for (const RankTrack& track : made.timeline.tracks)
    if (std::find(ranks.begin(), ranks.end(), track.rank) != ranks.end() &&
        coordinates_of(made.plan->layout, track.rank).pipeline == made.report.worst_stage)
      return &track;
  return nullptr;
}

std::string scenario_text(const Scenario& scenario) {
  if (scenario.path.empty() || !std::filesystem::exists(scenario.path)) return {};
  return load_text(scenario.path, Tree::max_bytes);
}

}  // namespace

std::string simulate_page(const Forecast& made, const Scenario& scenario,
                          const std::vector<RankId>& ranks, const std::string& command) {
  const Report& report = made.report;
  HtmlPage page{.title = scenario.name, .lead = headline(report)};
  page.sections.push_back({"Where the time goes", time_section(report)});
  page.sections.push_back({"Timeline", timeline_section(made, ranks)});
  if (const RankTrack* const track = fullest_track(made, ranks))
    page.sections.push_back({fmt::format("Memory of stage {}", report.worst_stage),
                             memory_chart(memory_over_time(*track, made.plan->program(track->rank)),
                                          report.step_time, report.worst_memory().capacity)});
  if (!report.what_if.empty())
    page.sections.push_back({"What would help most", help_section(report)});
  page.sections.push_back({"All figures", html_of_markdown(to_markdown(report))});
  page.json = to_json(report);
  page.command = command;
  page.scenario = scenario_text(scenario);
  return html_page(page);
}

}  // namespace sim
