#include "real/jobs/suite_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "real/calibrate/run_suite.hpp"
#include "real/jobs/engine_choice.hpp"
#include "sim/base/input_error.hpp"

namespace real {
namespace {

namespace fs = std::filesystem;

SuiteRun run_of(const SuiteForecast& forecast) {
  const sim::Scenario& scenario = forecast.scenario;
  SuiteRun run{.name = forecast.row.name,
               .what = {.plan = &forecast.plan, .model = &scenario.model, .source = scenario.path},
               .training = scenario.training,
               .algorithms = algorithms_of(scenario)};
  run.training.data = training_data(scenario);
  return run;
}

}  // namespace

sim::RealSuite choose_scenarios(sim::RealSuite suite, const std::vector<std::string>& names,
                                const std::string& cluster) {
  if (!cluster.empty()) suite.cluster = cluster;
  if (!fs::is_regular_file(suite.cluster))
    throw sim::InputError{sim::SourcePosition{suite.cluster, 0, 0},
                          "there is no such cluster file; `stepcast calibrate` writes it"};
  if (names.empty()) return suite;
  std::vector<sim::SuiteScenario> chosen;
  for (const std::string& name : names) {
    const auto found =
        std::find_if(suite.scenarios.begin(), suite.scenarios.end(),
                     [&](const sim::SuiteScenario& scenario) { return scenario.name == name; });
    if (found == suite.scenarios.end())
      throw sim::InputError{sim::SourcePosition{suite.path, 0, 0},
                            fmt::format("there is no scenario '{}'", name)};
    chosen.push_back(*found);
  }
  suite.scenarios = std::move(chosen);
  suite.bounds.scored = std::min(suite.bounds.scored, static_cast<int>(suite.scenarios.size()));
  return suite;
}

std::vector<SuiteForecast> forecast_suite(const sim::RealSuite& suite) {
  std::vector<SuiteForecast> forecasts;
  forecasts.reserve(suite.scenarios.size());
  for (const sim::SuiteScenario& scenario : suite.scenarios)
    forecasts.push_back(forecast(suite, scenario));
  return forecasts;
}

RunResult run_from(const sim::RealSuite& suite, const std::vector<SuiteForecast>& forecasts,
                   std::size_t first, const SuiteRunOptions& options) {
  SuiteRequest request{.backend = suite.backend == sim::RealBackend::host ? MeasuredBackend::host
                                                                          : MeasuredBackend::cuda,
                       .ranks = suite.ranks,
                       .ranks_per_gpu = suite.ranks_per_gpu,
                       .warm_up_steps = suite.warm_up_steps,
                       .measured_steps = suite.measured_steps,
                       .recorded_steps = suite.recorded_steps,
                       .runs = {},
                       .folder = options.folder,
                       .arguments = options.arguments(first),
                       .announce = options.announce};
  for (std::size_t i = first; i < forecasts.size(); ++i)
    request.runs.push_back(run_of(forecasts[i]));
  return run_suite(request);
}

RunEnd run_scenarios(const sim::RealSuite& suite, std::vector<SuiteForecast>& forecasts,
                     const SuiteRunOptions& options) {
  const auto record_of = [&](const SuiteForecast& forecast) {
    return record_path(options.folder, forecast.row.name);
  };
  for (const SuiteForecast& forecast : forecasts)
    fs::remove(record_of(forecast));
  for (std::size_t first = 0; first < forecasts.size();) {
    const RunResult result = run_from(suite, forecasts, first, options);
    const auto failed = std::find_if_not(
        forecasts.begin() + static_cast<std::ptrdiff_t>(first), forecasts.end(),
        [&](const SuiteForecast& forecast) { return fs::exists(record_of(forecast)); });
    if (failed == forecasts.end()) break;
    if (result.end == RunEnd::interrupted) {
      for (auto left = failed; left != forecasts.end(); ++left)
        left->row.failed = "interrupted";
      return RunEnd::interrupted;
    }
    failed->row.failed =
        result.message.empty() ? "the run ended without a record of it" : result.message;
    first = static_cast<std::size_t>(failed - forecasts.begin()) + 1;
  }
  return RunEnd::done;
}

namespace {

// Kept ones are packed.
std::string found_record(const std::string& folder, const std::string& name) {
  const std::string path = record_path(folder, name);
  return !fs::exists(path) && fs::exists(path + ".gz") ? path + ".gz" : path;
}

}  // namespace

sim::RealResult score_suite(const sim::RealSuite& suite, std::vector<SuiteForecast> forecasts,
                            const std::string& folder) {
  sim::RealResult result;
  result.suite = suite;
  result.calibration = calibration_lines(forecasts);
  const std::optional<sim::ReferenceTimes> reference = sim::load_reference(suite.cluster);
  for (SuiteForecast& one : forecasts)
    add_measurement(found_record(folder, one.row.name), reference, one, result);
  result.score = sim::score_real(result.rows);
  return result;
}

}  // namespace real
