#include "sim/anchor/anchor_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/rounding.hpp"
#include "sim/config/change.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/scenario/read/read_anchor.hpp"
#include "sim/uncertainty/step_parts.hpp"

namespace sim {
namespace {

// Growths of a measured run that are looked at as the next one.
constexpr std::array growths{2, 4, 8};

// Half of the interval of one part's factor: a step that is made of it alone, without its rest.
double half_width_of_part(const TimeErrors& errors, JobTraits traits, double StepShares::*part) {
  traits.shares = {};
  traits.shares.*part = 1;
  return errors.model().multiple *
         std::sqrt(std::max(0.0, errors.moments(traits).variance - errors.model().rest_variance()));
}

std::vector<LearntFactor> learnt(const TimeErrors& published, const TimeErrors& anchored,
                                 const JobTraits& first) {
  const TimeFactors factors = anchored.factors(first);
  std::vector<LearntFactor> made;
  made.reserve(parts_of_step.size());
  for (const StepPart& part : parts_of_step)
    made.push_back({.part = std::string{part.factor.name},
                    .factor = factors.*part.factor.member,
                    .half_width_before = half_width_of_part(published, first, part.share),
                    .half_width = half_width_of_part(anchored, first, part.share)});
  return made;
}

// The sum over runs of what share of a run's variance was open before it was observed: 1 for each
// effect that only this run tells.
double told_apart(const TimeErrors& published, const Anchor& anchor) {
  double sum = 0;
  ErrorEffects effects = published.effects();
  const double rest = published.model().rest_variance();
  for (const AnchorRun& run : anchor.runs) {
    const double open = effects.variance(effects.coefficients(run.traits)) +
                        effects.unknown_variance(run.traits) + effects.layout_variance(run.traits);
    sum += open / (open + rest);
    effects.observe(run, rest);
  }
  return sum;
}

struct Forecasting {
  const TimeErrors& published;
  const TimeErrors& anchored;
  const Control& control;

  struct Made {
    AnchoredForecast forecast;
    JobTraits traits;
  };
  Made of(const std::string& name, Scenario& scenario) const {
    Forecaster forecaster;
    scenario.options.factors = {};
    const Report without = forecaster.run(scenario, {}, control).report;
    set_factors(anchored, scenario);
    const Report with = forecaster.run(scenario, {}, control).report;
    const JobTraits traits = traits_of(scenario, with.shares);
    return {.forecast = {.name = name,
                         .gpus = traits.gpus,
                         .without = without.step_time,
                         .step_time = with.step_time,
                         .before = published.interval(traits_of(scenario, without.shares)),
                         .after = anchored.interval(traits)},
            .traits = traits};
  }
};

struct Candidate {
  std::string name;
  JobTraits traits;
};

// A measured run with more replicas, each with the batch that it has. Nothing where the cluster has
// no room for them.
std::optional<Candidate> grown(const MeasuredRun& run, int growth, const Forecasting& forecasting) {
  const Scenario& it = run.scenario;
  const int gpus = it.layout.world_size() * growth;
  const int per_node = std::min(it.layout.world_size(), it.cluster.gpus_per_node());
  std::vector<std::string> overrides = run.overrides;
  const auto set = [&](const char* key, std::int64_t value) {
    set_override(overrides, key, std::to_string(value));
  };
  set("cluster.nodes", divide_up(gpus, per_node));
  set("cluster.gpus", gpus);
  set("layout.data_parallel", std::int64_t{it.layout.data_parallel} * growth);
  set("layout.global_batch", it.layout.global_batch * growth);
  try {
    Scenario larger = load_scenario(it.path, overrides);
    set_factors(forecasting.anchored, larger);
    const Report report = forecast(larger, {}, forecasting.control).report;
    return Candidate{fmt::format("{} on {} GPUs", run.name, gpus),
                     traits_of(larger, report.shares)};
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// `target`: what is to become surer.
std::vector<NextRun> next_runs(const TimeErrors& anchored, const JobTraits& target,
                               const std::vector<Candidate>& candidates) {
  std::vector<NextRun> made;
  for (const Candidate& candidate : candidates) {
    if (candidate.traits.gpus >= target.gpus) continue;
    Anchor more;
    more.runs.emplace_back().traits = candidate.traits;
    made.push_back({.name = candidate.name,
                    .gpus = candidate.traits.gpus,
                    .half_width = anchored.anchored(more).half_width(target)});
  }
  std::stable_sort(made.begin(), made.end(),
                   [](const NextRun& a, const NextRun& b) { return a.half_width < b.half_width; });
  return made;
}

}  // namespace

AnchorReport make_anchor_report(AnchorRuns runs, const TimeErrors& published,
                                const Control& control) {
  AnchorReport report;
  report.anchor = anchored_on(runs.measured, published, control);
  const TimeErrors anchored = published.anchored(report.anchor);
  report.level = published.model().level;
  report.told_apart = told_apart(published, report.anchor);
  report.parts = learnt(published, anchored, report.anchor.runs.front().traits);
  const Forecasting forecasting{published, anchored, control};
  std::vector<Candidate> candidates;
  std::optional<Candidate> named;
  for (RunToForecast& other : runs.others) {
    const Forecasting::Made made = forecasting.of(other.name, other.scenario);
    report.forecasts.push_back(made.forecast);
    named = Candidate{other.name, made.traits};
    candidates.push_back(*named);
  }
  const auto largest = std::max_element(
      runs.measured.begin(), runs.measured.end(), [](const MeasuredRun& a, const MeasuredRun& b) {
        return a.scenario.layout.world_size() < b.scenario.layout.world_size();
      });
  for (const int growth : growths)
    if (std::optional<Candidate> larger = grown(*largest, growth, forecasting))
      candidates.push_back(std::move(*larger));
  if (candidates.empty()) return report;
  const JobTraits target = named ? named->traits : candidates.back().traits;
  report.target_gpus = target.gpus;
  report.next = next_runs(anchored, target, candidates);
  return report;
}

}  // namespace sim
