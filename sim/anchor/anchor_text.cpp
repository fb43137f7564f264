// The report of an anchor for people, as JSON, CSV and Markdown.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/anchor/anchor_report.hpp"
#include "sim/base/table_text.hpp"
#include "sim/report/text_grid.hpp"

namespace sim {
namespace {

double off(Duration forecast, Duration measured) {
  return 100 * (to_seconds(forecast) / to_seconds(measured) - 1);
}

// range_of() takes the half width of ln(time): "-8 to +9 %".
std::string range_of(double half_width) {
  return fmt::format("{:.0f} to +{:.0f} %", 100 * (std::exp(-half_width) - 1),
                     100 * (std::exp(half_width) - 1));
}

TextGrid runs_grid(const AnchorReport& report) {
  TextGrid grid{.columns = {{"measured run", "run"},
                            {"GPUs", "gpus"},
                            {"measured", "measured_s"},
                            {"forecast", "forecast_s"},
                            {"", "forecast_error_percent"},
                            {"anchored", "anchored_s"},
                            {"", "anchored_error_percent"}},
                .rows = {}};
  const auto time = [](Duration value) {
    return GridCell{precise(value), fmt::format("{}", in_seconds(value))};
  };
  const auto error = [](double percent) {
    return GridCell{fmt::format("{:+.1f} %", percent), fmt::format("{:.3f}", percent)};
  };
  for (const AnchorRun& run : report.anchor.runs)
    grid.rows.push_back({run.scenario, std::to_string(run.traits.gpus), time(run.measured),
                         time(run.forecast), error(off(run.forecast, run.measured)),
                         time(run.anchored), error(off(run.anchored, run.measured))});
  return grid;
}

TextGrid parts_grid(const AnchorReport& report) {
  TextGrid grid{.columns = {{"part of the step", "part"},
                            {"factor", "factor"},
                            {"known to within", "half_width"},
                            {"before", "half_width_before"}},
                .rows = {}};
  for (const LearntFactor& part : report.parts)
    grid.rows.push_back(
        {part.part, fmt::format("{:.3f}", part.factor),
         GridCell{range_of(part.half_width), fmt::format("{:.4f}", part.half_width)},
         GridCell{range_of(part.half_width_before),
                  fmt::format("{:.4f}", part.half_width_before)}});
  return grid;
}

TextGrid forecasts_grid(const AnchorReport& report) {
  TextGrid grid{.columns = {{"forecast", "scenario"},
                            {"GPUs", "gpus"},
                            {"without", "without_s"},
                            {"range", "without_range"},
                            {"anchored", "step_time_s"},
                            {"range", "range"}},
                .rows = {}};
  const auto range = [](const TimeInterval& of, Duration time) {
    return range_text(of.shortest(time), of.longest(time));
  };
  for (const AnchoredForecast& of : report.forecasts)
    grid.rows.push_back(
        {of.name, std::to_string(of.gpus),
         GridCell{precise(of.without), fmt::format("{}", in_seconds(of.without))},
         range(of.before, of.without),
         GridCell{precise(of.step_time), fmt::format("{}", in_seconds(of.step_time))},
         range(of.after, of.step_time)});
  return grid;
}

std::string told_text(const AnchorReport& report) {
  const std::size_t runs = report.anchor.runs.size();
  return fmt::format("{} run{} of {} on {}; ranges hold {:.0f} % of such runs", runs,
                     runs == 1 ? "" : "s", word(report.anchor.framework), report.anchor.device,
                     100 * report.level);
}

TextGrid next_grid(const AnchorReport& report) {
  TextGrid grid{.columns = {{"if measured next", "run"},
                            {"GPUs", "gpus"},
                            {fmt::format("the step on {} GPUs is known to", report.target_gpus),
                             "half_width"}},
                .rows = {}};
  for (const NextRun& run : report.next)
    grid.rows.push_back(
        {run.name, std::to_string(run.gpus),
         GridCell{range_of(run.half_width), fmt::format("{:.4f}", run.half_width)}});
  return grid;
}

std::string pages(const AnchorReport& report, std::string (*grid)(const TextGrid&)) {
  std::string text = told_text(report) + "\n\n" + grid(runs_grid(report));
  text += "\n" + grid(parts_grid(report));
  if (!report.forecasts.empty()) text += "\n" + grid(forecasts_grid(report));
  if (!report.next.empty()) text += "\n" + grid(next_grid(report));
  return text;
}

}  // namespace

std::string anchor_table(const AnchorReport& report) {
  return pages(report, grid_table);
}
std::string anchor_markdown(const AnchorReport& report) {
  return pages(report, grid_markdown);
}
std::string anchor_csv(const AnchorReport& report) {
  return grid_csv(runs_grid(report));
}

std::string anchor_json(const AnchorReport& report) {
  nlohmann::ordered_json json;
  json["device"] = report.anchor.device;
  json["framework"] = word(report.anchor.framework);
  json["level"] = report.level;
  json["effects_told_apart"] = report.told_apart;
  for (const AnchorRun& run : report.anchor.runs)
    json["runs"].push_back({{"scenario", run.scenario},
                            {"gpus", run.traits.gpus},
                            {"measured_s", in_seconds(run.measured)},
                            {"forecast_s", in_seconds(run.forecast)},
                            {"anchored_s", in_seconds(run.anchored)}});
  for (const LearntFactor& part : report.parts)
    json["factors"].push_back({{"part", part.part},
                               {"factor", part.factor},
                               {"log_half_width", part.half_width},
                               {"log_half_width_before", part.half_width_before}});
  json["forecasts"] = nlohmann::ordered_json::array();
  for (const AnchoredForecast& of : report.forecasts)
    json["forecasts"].push_back({{"scenario", of.name},
                                 {"gpus", of.gpus},
                                 {"without_s", in_seconds(of.without)},
                                 {"step_time_s", in_seconds(of.step_time)},
                                 {"step_time_s_low", in_seconds(of.after.shortest(of.step_time))},
                                 {"step_time_s_high", in_seconds(of.after.longest(of.step_time))}});
  json["next_runs"] = nlohmann::ordered_json::array();
  for (const NextRun& run : report.next)
    json["next_runs"].push_back(
        {{"run", run.name}, {"gpus", run.gpus}, {"log_half_width", run.half_width}});
  return json.dump(2) + "\n";
}

}  // namespace sim
