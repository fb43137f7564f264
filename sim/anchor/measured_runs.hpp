// The measured runs that an anchor is made of: scenarios, and what their steps took.
#pragma once

#include <string>
#include <vector>

#include "sim/forecast/anchor.hpp"

namespace sim {

struct RunsRequest {
  std::vector<std::string> scenarios{};
  // step_times and logs are in the order of the scenarios, as many or fewer: those without one are
  // to be forecast.
  std::vector<std::string> step_times{}, logs{};
  // A table instead: `step_time_s`, `scenario` where there are several, and keys of scenarios that
  // differ from run to run.
  std::string table{};
  std::vector<std::string> overrides{};
};

struct RunToForecast {
  std::string name;
  Scenario scenario;
};

struct AnchorRuns {
  std::vector<MeasuredRun> measured;
  std::vector<RunToForecast> others;
  std::vector<std::string> notes;
};

// Throws InputError where a file has a mistake, or runs are not of one framework on one device.
AnchorRuns read_anchor_runs(const RunsRequest& request);

}  // namespace sim
