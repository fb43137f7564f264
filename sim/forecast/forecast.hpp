// The front door of the library: a scenario in, the forecast of its training step out.
#pragma once

#include <memory>
#include <optional>

#include "sim/base/control.hpp"
#include "sim/plan/plan.hpp"
#include "sim/report/report.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

struct ForecastOptions {
  bool what_if = false;     // Report::what_if and Report::unmoved
  bool every_rank = false;  // spans of every rank, not of one per class of equal ranks
};

struct Forecast {
  std::shared_ptr<const Plan> plan;  // what each rank runs
  Timeline timeline;                 // what ran when
  Report report;                     // the figures
};

// Plans and simulates one step of the scenario. A layout that does not fit into the memory is
// forecast all the same: Report::fits() tells.
// Throws InputError for a dtype that the device lacks; Stopped when `control` asks for an end, 50
// ms later at most. The same scenario gives the same bytes, on any number of threads.
Forecast forecast(const Scenario& scenario, const ForecastOptions& options = {},
                  const Control& control = {});

// The memory alone, without a simulation: every figure of the report but times.
Forecast forecast_memory(const Scenario& scenario, const Control& control = {});

// Forecasts of one scenario after another, as a slider or a sweep of the machine asks for them: the
// plan, and what it needs of memory, are kept while neither model nor layout change. One thread at
// a time.
class Forecaster {
 public:
  Forecast run(const Scenario& scenario, const ForecastOptions& options = {},
               const Control& control = {});
  Forecast memory(const Scenario& scenario, const Control& control = {});

 private:
  void plan(const Scenario& scenario, const Control& control);

  std::optional<Model> model_;
  Layout layout_;
  std::shared_ptr<const Plan> plan_;
  std::optional<PlanMemory> memory_;  // of it
};

}  // namespace sim
