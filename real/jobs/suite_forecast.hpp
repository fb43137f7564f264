// A scenario of a suite as the simulator sees it, and what its record adds.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scores/real/run_score.hpp"
#include "sim/timeline/record.hpp"

namespace real {

struct SuiteForecast {
  sim::Scenario scenario;
  sim::Plan plan;
  sim::Record record;  // simulated, every rank
  sim::RealRow row;    // the row as the forecast knows it
};

// Throws InputError for a scenario that cannot be read or has another number of ranks.
SuiteForecast forecast(const sim::RealSuite& suite, const sim::SuiteScenario& scenario);

// Completes the row from the record of the run, if there is one, and moves it to `result`.
// `calibrated`: the reference of the calibration, if it has one.
void add_measurement(const std::string& record_path,
                     const std::optional<sim::ReferenceTimes>& calibrated, SuiteForecast& forecast,
                     sim::RealResult& result);

// Where the forecasts' parameters come from.
std::vector<std::string> calibration_lines(const std::vector<SuiteForecast>& forecasts);

}  // namespace real
