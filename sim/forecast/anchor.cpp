#include "sim/forecast/anchor.hpp"

#include <cmath>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/scenario/read/read_anchor.hpp"
#include "sim/uncertainty/step_parts.hpp"

namespace sim {
namespace {

// Forecasts with factors change what is exposed, which changes what the runs say of the factors.
constexpr int anchor_rounds = 4;

// ln(time with factors / time without), to first order about these shares.
double explained(const StepShares& shares, const TimeFactors& factors) {
  double sum = 0;
  for (const StepPart& part : parts_of_step)
    sum += shares.*part.share * std::log(factors.*part.factor.member);
  return sum;
}

}  // namespace

Anchor anchored_on(std::span<MeasuredRun> runs, const TimeErrors& published,
                   const Control& control) {
  SIM_CHECK(!runs.empty(), runs.size());
  const Scenario& first = runs.front().scenario;
  Anchor anchor{.device = first.cluster.device().name,
                .framework = first.framework.name,
                .runs = std::vector<AnchorRun>(runs.size())};
  std::vector<Forecaster> forecasters(runs.size());
  for (int round = 0; round <= anchor_rounds; ++round) {
    const TimeErrors errors = round == 0 ? published : published.anchored(anchor);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      Scenario& scenario = runs[i].scenario;
      scenario.options.factors = {};
      if (round > 0) set_factors(errors, scenario);
      const Report report = forecasters[i].run(scenario, {}, control).report;
      AnchorRun& run = anchor.runs[i];
      run.scenario = runs[i].name;
      run.traits = traits_of(scenario, report.shares);
      run.measured = runs[i].measured;
      run.parts = runs[i].parts;
      run.anchored = report.step_time;
      if (round == 0) run.forecast = report.step_time;
      run.log_error = std::log(to_seconds(run.measured) / to_seconds(run.anchored)) +
                      explained(report.shares, scenario.options.factors);
    }
  }
  return anchor;
}

}  // namespace sim
