#include "real/jobs/convergence_plans.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "real/jobs/training_run.hpp"
#include "sim/convergence/traffic.hpp"

namespace real {
namespace {

// "  density: 7" of the document of --set: which key that is.
std::string key_of_line(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find(':') - begin);
}

// The key of the scheme that a mistake begins with: "compression.gradients is int8 with ...".
const sim::SchemeKey* named_key(const sim::SyncScheme& scheme, const std::string& what) {
  for (const sim::SchemeKey& key : scheme.set)
    if (what.starts_with(key.key.substr(key.key.find('.') + 1) + " is ")) return &key;
  return nullptr;
}

// The key of the scheme that a mistake is about; null for one of the base scenario.
const sim::SchemeKey* key_of(const sim::SyncScheme& scheme, const sim::Problem& problem) {
  if (problem.where.file != "--set") return named_key(scheme, problem.what);
  const std::string last = "." + key_of_line(problem.source_line);
  for (const sim::SchemeKey& key : scheme.set)
    if (key.key.ends_with(last)) return &key;
  const sim::SchemeKey* named = named_key(scheme, problem.what);
  return named || scheme.set.empty() ? named : &scheme.set.front();
}

// Mistakes of a scheme's keys are told where the suite has them.
[[noreturn]] void throw_placed(const sim::SyncScheme& scheme, const sim::InputError& error) {
  std::vector<sim::Problem> problems = error.problems();
  for (sim::Problem& problem : problems) {
    problem.what += fmt::format(" (scheme '{}')", scheme.name);
    if (const sim::SchemeKey* key = key_of(scheme, problem)) {
      problem.where = key->where;
      problem.source_line.clear();
    }
  }
  throw sim::InputError{std::move(problems)};
}

std::vector<std::string> overrides_of(const sim::ConvergenceSuite& suite,
                                      const sim::SyncScheme& scheme) {
  std::vector<std::string> overrides;
  for (const sim::SchemeKey& key : scheme.set)
    overrides.push_back(key.key + '=' + key.value);
  overrides.push_back(fmt::format("training.steps={}", suite.steps));
  overrides.push_back(fmt::format("training.seed={}", suite.seeds.front()));
  return overrides;
}

SchemePlan plan_scheme(const sim::ConvergenceSuite& suite, const sim::SyncScheme& scheme) {
  try {
    SchemePlan planned{.scenario = sim::load_scenario(suite.base, overrides_of(suite, scheme)),
                       .plan = {}};
    planned.plan = sim::make_plan(planned.scenario.model, planned.scenario.layout);
    TrainingRunOptions options{.backend = BackendChoice::host};
    if (scheme.warm_up > 0) options.resume = "a warm-up";
    require_executable(planned.scenario, planned.plan, options);
    planned.sent = sim::synchronisation_bytes(planned.plan);
    return planned;
  } catch (const sim::InputError& error) {
    throw_placed(scheme, error);
  }
}

void refuse(const sim::ConvergenceSuite& suite, const std::string& what) {
  throw sim::InputError{sim::SourcePosition{suite.path, 0, 0}, what};
}

// Checks the settings that all schemes must share with the baseline. Else the comparison would be
// one of other things, too.
void check_comparable(const sim::ConvergenceSuite& suite, const std::vector<SchemePlan>& plans) {
  const SchemePlan& baseline = plans[suite.baseline];
  const std::string& name = suite.schemes[suite.baseline].name;
  const sim::Layout& layout = baseline.scenario.layout;
  if (layout.compression != sim::GradientCompression::none || layout.quantized_weights)
    refuse(suite, fmt::format("the baseline '{}' compresses what ranks send; allowed: a scheme "
                              "with layout.compression.gradients none, named by `baseline`",
                              name));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const sim::Layout& other = plans[i].scenario.layout;
    if (plans[i].plan.tokens != baseline.plan.tokens ||
        other.sequence_length != layout.sequence_length)
      refuse(suite, fmt::format("the scheme '{}' trains on {} sequences of {} tokens per step, the "
                                "baseline '{}' on {} of {}; allowed: the same",
                                suite.schemes[i].name, other.global_batch, other.sequence_length,
                                name, layout.global_batch, layout.sequence_length));
    if (plans[i].plan.parameters != baseline.plan.parameters)
      refuse(suite, fmt::format("the scheme '{}' trains a model of {} parameters, the baseline "
                                "'{}' one of {}; allowed: the same model",
                                suite.schemes[i].name, plans[i].plan.parameters, name,
                                baseline.plan.parameters));
  }
}

}  // namespace

std::vector<SchemePlan> plan_schemes(const sim::ConvergenceSuite& suite) {
  std::vector<SchemePlan> plans;
  for (const sim::SyncScheme& scheme : suite.schemes)
    plans.push_back(plan_scheme(suite, scheme));
  check_comparable(suite, plans);
  return plans;
}

}  // namespace real
