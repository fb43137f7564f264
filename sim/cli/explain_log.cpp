#include "sim/cli/explain_log.hpp"

#include <fmt/format.h>

#include "sim/anchor/training_log.hpp"
#include "sim/base/table_text.hpp"
#include "sim/forecast/forecast.hpp"

namespace sim {
namespace {

std::string beside_forecast(Duration median, const Scenario& scenario) {
  const Report report = forecast(scenario).report;
  std::string text =
      fmt::format("{:.2f} x the forecast, {}", to_seconds(median) / to_seconds(report.step_time),
                  precise(report.step_time));
  if (report.interval)
    text += fmt::format(" ({:.0f} % of such runs: {})", 100 * report.interval->level,
                        range_text(report.interval->shortest(report.step_time),
                                   report.interval->longest(report.step_time)));
  return text + '\n';
}

}  // namespace

bool is_step_log(std::string_view head) {
  return head.starts_with("{\"stepcast_watch\":");
}

std::string step_log_text(const std::string& path, const Scenario* scenario) {
  const TrainingLog log = read_training_log(path);
  const LoggedStep step = logged_step(log, 0);
  std::string text =
      fmt::format("Log of {}: {} steps, the first {} left out\nstep {} (median), {} (p10 to p90)\n",
                  log.writer, step.steps, step.left_out, precise(step.median),
                  range_text(step.least_tenth, step.most_tenth));
  if (scenario != nullptr) text += beside_forecast(step.median, *scenario);
  return text +
         "A log has no kernels: traces of a few steps tell the causes (docs/explain-a-run.md)\n";
}

}  // namespace sim
