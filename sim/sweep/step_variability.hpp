// How long steps take on a machine that disturbs them: the forecast at some shares of the fabric
// and with a slow node, and steps drawn from in between.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/disturbance.hpp"
#include "sim/sweep/point.hpp"

namespace sim {

struct StepVariability {
  std::string path;
  std::vector<std::string> overrides;
  Disturbance disturbance;
  int nodes = 1;
  double slow_chance = 0;  // that a job has a slow node
  PointResult undisturbed;
  Duration mean{}, p5{}, p50{}, p95{}, p99{};
  // The mean step with one part of the disturbance alone; equal to `undisturbed` where there is
  // none.
  Duration fabric_alone{}, slow_alone{}, allocation_alone{};
  // factor() is on the time of a run's steps.
  double factor() const { return to_seconds(mean) / to_seconds(undisturbed.step_time); }
};

// The seed of the draws is that of the scenario. The same on any number of threads. Throws
// InputError; Stopped.
StepVariability step_variability(const ScenarioInput& scenario,
                                 const std::vector<std::string>& overrides,
                                 const std::function<void()>& done = {},
                                 const Control& control = {});

std::string variability_table(const StepVariability& steps);
std::string variability_json(const StepVariability& steps);
std::string variability_csv(const StepVariability& steps);
std::string variability_markdown(const StepVariability& steps);

}  // namespace sim
