#include "sim/forecast/forecast.hpp"

#include <optional>
#include <utility>

#include "sim/engine/simulator.hpp"
#include "sim/forecast/meetings.hpp"
#include "sim/forecast/servers.hpp"
#include "sim/forecast/unmoved.hpp"
#include "sim/forecast/what_if.hpp"
#include "sim/plan/meeting.hpp"

namespace sim {
namespace {

SimulationOptions options_of(const Scenario& scenario, const ForecastOptions& options) {
  SimulationOptions made = scenario.options;
  if (options.every_rank) {
    made.fold = false;
    made.record_all = true;
  }
  return made;
}

// The step of a job that trains apart is one without a meeting; what meetings add to it on the mean
// is simulated beside it. Memory is that of a step with one. With servers the step is known before.
struct Rounds {
  std::shared_ptr<const Plan> step;
  BesideStep beside;
  std::optional<Simulation> simulated;
};
Rounds rounds_of(const Scenario& scenario, std::shared_ptr<const Plan> plan,
                 const SimulationOptions& options, const Control& control) {
  if (plan->layout.has_servers()) {
    Simulation step = simulate(*plan, scenario.cluster, options_of_worker(options), control);
    ServerRun run = simulate_servers(*plan, scenario.cluster, options, step.timeline, control);
    return {std::move(plan), {.servers = std::move(run)}, std::move(step)};
  }
  if (!plan->layout.trains_apart()) return {std::move(plan), {}, {}};
  return {std::make_shared<const Plan>(plan_of_steps(*plan, 1, std::nullopt)),
          {.meetings = simulate_meetings(*plan, scenario.cluster, options, control)},
          {}};
}

Forecast forecast_plan(const Scenario& scenario, const std::shared_ptr<const Plan>& whole,
                       PlanMemory& memory, const ForecastOptions& options, const Control& control) {
  const SimulationOptions simulated = options_of(scenario, options);
  throw_if_stopped(control);
  control.tell("simulation", 0);
  Rounds rounds = rounds_of(scenario, whole, simulated, control);
  Forecast made{.plan = rounds.step, .timeline = {}, .report = {}};
  const auto report = [&](Simulation simulation) {
    made.report = make_report(scenario, *made.plan, simulation, memory, std::move(rounds.beside));
    made.timeline = std::move(simulation.timeline);
  };
  if (rounds.simulated) {
    report(std::move(*rounds.simulated));
  } else if (options.what_if) {
    const Simulator simulator{*made.plan, scenario.cluster, scenario.options, control};
    report(simulator.run(simulated, control));
    add_what_if(made.report, simulator, scenario.options, control);
    note_unmoved(made.report, scenario, *made.plan, control);
  } else {
    report(simulate(*made.plan, scenario.cluster, simulated, control));
  }
  control.tell("done", 1);
  return made;
}

Forecast memory_of_plan(const Scenario& scenario, std::shared_ptr<const Plan> plan,
                        PlanMemory& memory, const Control& control) {
  throw_if_stopped(control);
  Report report = make_memory_report(scenario, *plan, memory);
  return {.plan = std::move(plan), .timeline = {}, .report = std::move(report)};
}

std::shared_ptr<const Plan> planned(const Scenario& scenario, const Control& control) {
  throw_if_stopped(control);
  control.tell("plan", 0);
  return std::make_shared<const Plan>(make_plan(scenario.model, scenario.layout));
}

}  // namespace

Forecast forecast(const Scenario& scenario, const ForecastOptions& options,
                  const Control& control) {
  return Forecaster{}.run(scenario, options, control);
}

Forecast forecast_memory(const Scenario& scenario, const Control& control) {
  return Forecaster{}.memory(scenario, control);
}

Forecast Forecaster::run(const Scenario& scenario, const ForecastOptions& options,
                         const Control& control) {
  plan(scenario, control);
  return forecast_plan(scenario, plan_, *memory_, options, control);
}

Forecast Forecaster::memory(const Scenario& scenario, const Control& control) {
  plan(scenario, control);
  return memory_of_plan(scenario, plan_, *memory_, control);
}

void Forecaster::plan(const Scenario& scenario, const Control& control) {
  if (plan_ && layout_ == scenario.layout && model_ == scenario.model) return;
  plan_ = planned(scenario, control);
  memory_.emplace(*plan_);
  model_ = scenario.model;
  layout_ = scenario.layout;
}

}  // namespace sim
