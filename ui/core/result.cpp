#include "ui/core/result.hpp"

#include <chrono>

#include "sim/forecast/shown_ranks.hpp"
#include "sim/scenario/sources.hpp"

namespace ui {

ResultPtr compute(const ForecastRequest& request, sim::Forecaster& forecaster,
                  const sim::Control& control) {
  const auto start = std::chrono::steady_clock::now();
  sim::Scenario scenario = sim::load_scenario(
      sim::ScenarioSources::of_text(request.yaml, request.path, request.overrides));
  sim::Forecast forecast = forecaster.run(scenario, {}, control);
  const std::vector<sim::RankId> shown =
      sim::one_rank_per_stage(scenario, *forecast.plan, forecast.timeline);
  Lanes lanes = make_lanes(*forecast.plan, forecast.timeline, shown);
  sim::throw_if_stopped(control);
  std::vector<sim::PathStep> path = sim::critical_path(*forecast.plan, forecast.timeline);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return std::make_shared<const Result>(Result{request, std::move(scenario), std::move(forecast),
                                               std::move(lanes), std::move(path), taken.count()});
}

}  // namespace ui
