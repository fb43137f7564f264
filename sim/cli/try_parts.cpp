#include "sim/cli/try_parts.hpp"

#include <cmath>

#include "sim/forecast/forecast.hpp"

namespace sim {
namespace {

constexpr double least_change = 0.02;

Duration step_with(Scenario& scenario, const TimeFactors& factors, Forecaster& forecaster) {
  scenario.options.factors = factors;
  return forecaster.run(scenario).report.step_time;
}

}  // namespace

void try_parts(Scenario& scenario, Waterfall& waterfall) {
  // With factors of its own, those of a trace would have to be multiplied.
  if (scenario.options.factors != TimeFactors{} || waterfall.difference() == Duration{}) return;
  Forecaster forecaster;
  TimeFactors all;
  for (std::size_t i = 0; i < time_factor_fields.size(); ++i) {
    const std::optional<double> factor = measured_factor(waterfall.times[i], waterfall.forecast);
    if (!factor || std::abs(*factor - 1) < least_change || *factor < least_time_factor ||
        *factor > most_time_factor)
      continue;
    TimeFactors one;
    one.*time_factor_fields[i].member = all.*time_factor_fields[i].member = *factor;
    waterfall.tried.push_back(
        {time_factor_fields[i].name, *factor, step_with(scenario, one, forecaster)});
  }
  if (waterfall.tried.size() > 1)
    waterfall.tried.push_back({"all of them", 1, step_with(scenario, all, forecaster)});
  scenario.options.factors = {};
}

}  // namespace sim
