// A suite of scenarios run for real beside its forecasts: `stepcast validate real`.
//
//   const sim::RealSuite suite = choose_scenarios(load_real_suite(path), {}, "");
//   std::vector<SuiteForecast> forecasts = forecast_suite(suite);
//   const RunEnd end = run_scenarios(suite, forecasts, {.folder = folder, .arguments = ...});
//   const sim::RealResult result = score_suite(suite, std::move(forecasts), folder);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "real/jobs/suite_forecast.hpp"
#include "real/launch/launch.hpp"

namespace real {

// The suite with another `cluster` file (empty: its own) and only the scenarios of these `names`
// (empty: all). Throws InputError for a file or a name that there is not.
sim::RealSuite choose_scenarios(sim::RealSuite suite, const std::vector<std::string>& names,
                                const std::string& cluster);

// Throws as forecast() of a scenario does.
std::vector<SuiteForecast> forecast_suite(const sim::RealSuite& suite);

struct SuiteRunOptions {
  std::string folder;     // for the records; exists
  bool announce = false;  // rank 0 says on stderr what runs
  // Arguments of this program for ranks that are processes: they call run_from(..., first).
  std::function<std::vector<std::string>(std::size_t first)> arguments;
};

// Runs the scenarios from number `first` on, in this process's part. The record of each is complete
// when its run is.
RunResult run_from(const sim::RealSuite& suite, const std::vector<SuiteForecast>& forecasts,
                   std::size_t first, const SuiteRunOptions& options);

// Runs all of them; after one that fails, the rest. Rows that failed say why. `done` or
// `interrupted`.
RunEnd run_scenarios(const sim::RealSuite& suite, std::vector<SuiteForecast>& forecasts,
                     const SuiteRunOptions& options);

// Forecasts and the records in `folder`, scored.
sim::RealResult score_suite(const sim::RealSuite& suite, std::vector<SuiteForecast> forecasts,
                            const std::string& folder);

}  // namespace real
