#include "sim/convergence/choose/choose.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

constexpr const char* nics = "cluster.change.node.nics.bandwidth";

Scenario loaded(const ChooseQuestion& question) {
  return load_scenario(question.scenario.with(question.overrides));
}

std::vector<Axis> axes_of(const ChooseQuestion& question, const Scenario& scenario) {
  std::vector<Axis> axes;
  for (const std::string& text : question.over)
    axes.push_back(parse_axis(text));
  if (axes.size() > 2)
    throw InputError{{"--over", 0, 0},
                     fmt::format("{} axes are given; a map has two at most", axes.size())};
  const bool between = scenario.layout.world_size() > scenario.cluster.gpus_per_node();
  if (axes.empty() && between && scenario.cluster.network().nics_per_node > 0)
    axes.push_back({nics, axis_values("10 Gbps,25 Gbps,50 Gbps,100 Gbps,200 Gbps,400 Gbps")});
  return axes;
}

struct FactorFile {
  ConvergenceFactors factors;
  std::size_t target = 0;  // index
};

std::size_t target_of(const ConvergenceFactors& factors, const std::string& path,
                      std::optional<double> wanted) {
  if (!wanted) return factors.targets.size() - 1;
  for (std::size_t i = 0; i < factors.targets.size(); ++i)
    if (factors.targets[i].value == *wanted) return i;
  std::vector<double> known;
  for (const LossTarget& target : factors.targets)
    known.push_back(target.value);
  throw InputError{
      {"--target", 0, 0},
      fmt::format("{} is no target of {}; allowed: {}", *wanted, path, fmt::join(known, ", "))};
}

std::vector<FactorFile> files_of(const ChooseQuestion& question) {
  std::vector<FactorFile> files;
  for (const std::string& path : question.factors) {
    FactorFile& file = files.emplace_back();
    file.factors = load_factors(path);
    file.target = target_of(file.factors, path, question.target);
  }
  return files;
}

// Whatever its warm-up was.
const SchemeOutcome* measured(const ConvergenceFactors& factors,
                              const std::vector<SchemeKey>& keys) {
  for (const SchemeOutcome& outcome : factors.schemes)
    if (const SchemeOutcome* found = find_scheme(factors, keys, outcome.scheme.warm_up))
      return found;
  return nullptr;
}

Learning no_evidence(std::string why) {
  Learning learning;
  learning.why = std::move(why);
  return learning;
}

Learning learning_of(const SchemeCandidate& candidate, const std::vector<FactorFile>& files) {
  if (candidate.learns.empty()) return {.evidence = Evidence::same, .why = {}};
  for (const FactorFile& file : files) {
    const SchemeOutcome* found = measured(file.factors, candidate.learns);
    if (found == nullptr) continue;
    const auto index = static_cast<std::size_t>(found - file.factors.schemes.data());
    const StatisticalFactor factor = factor_of(file.factors, index, file.target);
    if (!factor.spread)
      return no_evidence(factor.above ? fmt::format("above x{:.2f}, it did not reach the target "
                                                    "with every seed",
                                                    *factor.above)
                                      : "it did not reach the target with every seed");
    return {.evidence = Evidence::measured,
            .factor = factor.spread->mean,
            .deviation = factor.spread->deviation,
            .why = {}};
  }
  return no_evidence(files.empty() ? "no file of factors is given" : "not measured");
}

// A scheme that was measured has to be the first with a spread more of steps, too: a gain within
// the noise of its factor is none.
void find_best(ChoiceAtPoint& point, const std::vector<Learning>& learning) {
  const auto first = [&](bool evidence) {
    std::optional<std::size_t> best;
    double least = 0;
    for (std::size_t i = 0; i < point.schemes.size(); ++i) {
      if (!point.schemes[i].possible()) continue;
      if (evidence && learning[i].evidence == Evidence::none) continue;
      const double factor = learning[i].factor + (evidence ? learning[i].deviation : 0);
      const double time = to_seconds(point.schemes[i].step.step_time) * factor;
      if (!best || time < least) {
        best = i;
        least = time;
      }
    }
    return best;
  };
  point.best = first(true);
  point.fastest = first(false);
}

// The keys of each candidate, by name, for the machine at a point; those of the scenario where that
// machine is none.
std::vector<std::vector<std::string>> keys_at(const ChooseQuestion& question,
                                              const std::vector<SchemeCandidate>& candidates,
                                              const std::vector<std::string>& assigned) {
  std::vector<std::string> overrides = question.overrides;
  overrides.insert(overrides.end(), assigned.begin(), assigned.end());
  std::vector<SchemeCandidate> here;
  try {
    here = candidates_for(load_scenario(question.scenario.with(overrides)));
  } catch (const InputError&) {
    here = {};  // the forecast tells
  }
  std::vector<std::vector<std::string>> all;
  for (const SchemeCandidate& candidate : candidates) {
    const auto found = std::find_if(here.begin(), here.end(), [&](const SchemeCandidate& one) {
      return one.name == candidate.name;
    });
    std::vector<std::string>& keys = all.emplace_back(overrides);
    const std::vector<std::string>& set = found == here.end() ? candidate.set : found->set;
    keys.insert(keys.end(), set.begin(), set.end());
  }
  return all;
}

std::string file_text(const FactorFile& file) {
  const ConvergenceSetting& setting = file.factors.setting;
  return fmt::format("{} on {}: {}, {:.2g} M parameters, {} replicas, {} seeds of {} steps",
                     target_text(file.factors.targets[file.target]), setting.suite, setting.model,
                     static_cast<double>(setting.parameters) / 1e6, setting.replicas,
                     setting.seeds.size(), setting.steps);
}

}  // namespace

Choice choose(const ChooseQuestion& question, const std::function<void()>& done,
              const Control& control) {
  const Scenario scenario = loaded(question);
  Choice choice;
  choice.scenario = scenario.name;
  choice.axes = axes_of(question, scenario);
  choice.candidates = candidates_for(scenario);
  for (const std::string& text : question.schemes)
    choice.candidates.push_back(parse_candidate(text));
  const std::vector<FactorFile> files = files_of(question);
  for (const FactorFile& file : files)
    choice.measured_on.push_back(file_text(file));
  for (const SchemeCandidate& candidate : choice.candidates)
    choice.learning.push_back(learning_of(candidate, files));

  const std::uint64_t points = point_count(choice.axes);
  const std::size_t schemes = choice.candidates.size();
  std::vector<std::vector<std::string>> all;
  for (std::uint64_t p = 0; p < points; ++p)
    for (std::vector<std::string>& keys :
         keys_at(question, choice.candidates, assignments(choice.axes, p)))
      all.push_back(std::move(keys));
  std::vector<PointResult> steps =
      forecast_points(question.scenario, all, LayoutMode::fixed, done, control);
  for (std::uint64_t p = 0; p < points; ++p) {
    ChoiceAtPoint& point = choice.points.emplace_back();
    point.values = values_at(choice.axes, p);
    for (std::size_t i = 0; i < schemes; ++i) {
      SchemeForecast& one = point.schemes.emplace_back();
      one.step = std::move(steps[p * schemes + i]);
      one.to_target = Duration{std::llround(static_cast<double>(one.step.step_time.count()) *
                                            choice.learning[i].factor)};
    }
    find_best(point, choice.learning);
  }
  return choice;
}

}  // namespace sim
