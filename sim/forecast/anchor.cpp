#include "sim/forecast/anchor.hpp"

#include <cmath>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/forecast/forecast.hpp"

namespace sim {
namespace {

// Forecasts with factors change what is exposed, which changes what the runs say of the factors.
// After three rounds no factor of any published group moves by a thousandth.
constexpr int rounds = 4;

JobTraits traits_of_forecast(const Scenario& scenario, const Report& report) {
  return traits_of(scenario.model, scenario.framework.name, scenario.layout, scenario.cluster,
                   report.shares);
}

// ln(time with factors / time without), to first order about these shares.
double explained(const JobTraits& traits, const TimeFactors& factors) {
  const StepShares& of = traits.shares;
  return of.products * std::log(factors.products) +
         of.memory_kernels * std::log(factors.memory_kernels) + of.host * std::log(factors.host) +
         of.tensor * std::log(factors.tensor) + of.data * std::log(factors.data) +
         of.pipeline * std::log(factors.pipeline);
}

}  // namespace

void set_factors(const TimeErrors& errors, Scenario& scenario) {
  scenario.options.factors = errors.factors(
      job_name(scenario.model, scenario.layout, scenario.cluster), scenario.layout.world_size());
}

Anchor anchored_on(std::span<MeasuredRun> runs, const TimeErrors& published,
                   const Control& control) {
  SIM_CHECK(!runs.empty(), runs.size());
  const Scenario& first = runs.front().scenario;
  Anchor anchor{.device = first.cluster.device().name,
                .framework = first.framework.name,
                .runs = std::vector<AnchorRun>(runs.size())};
  std::vector<Forecaster> forecasters(runs.size());
  for (int round = 0; round <= rounds; ++round) {
    const TimeErrors errors = round == 0 ? published : published.anchored(anchor);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Scenario& scenario = runs[i].scenario;
      scenario.options.factors = {};
      if (round > 0) set_factors(errors, scenario);
      const Report report = forecasters[i].run(scenario, {}, control).report;
      AnchorRun& run = anchor.runs[i];
      run.scenario = runs[i].name;
      run.traits = traits_of_forecast(scenario, report);
      run.measured = runs[i].measured;
      run.anchored = report.step_time;
      if (round == 0) run.forecast = report.step_time;
      run.log_error = std::log(to_seconds(run.measured) / to_seconds(run.anchored)) +
                      explained(run.traits, scenario.options.factors);
    }
  }
  return anchor;
}

}  // namespace sim
