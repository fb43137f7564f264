// A file of factors, written; factors_read.cpp reads it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "sim/config/yaml_text.hpp"
#include "sim/convergence/factors.hpp"

namespace sim {
namespace {

std::string list_text(const std::vector<std::string>& items) {
  return fmt::format("[{}]", fmt::join(items, ", "));
}

std::string setting_yaml(const ConvergenceSetting& setting) {
  std::string text = fmt::format("suite: {}\ntitle: {}\nprogram: {}\ndate: {}\n",
                                 yaml_quoted(setting.suite), yaml_quoted(setting.title),
                                 yaml_quoted(setting.program), yaml_quoted(setting.date));
  text +=
      fmt::format("model: {}\nparameters: {}\nscenario: {}\ndata: {}\n", yaml_quoted(setting.model),
                  setting.parameters, yaml_quoted(setting.scenario), yaml_quoted(setting.data));
  text += fmt::format("optimizer: {}\nlearning_rate: {}\nreplicas: {}\n",
                      yaml_quoted(setting.optimizer), setting.learning_rate, setting.replicas);
  text += fmt::format("global_batch: {}\nsequence_length: {}\nsteps: {}\n", setting.global_batch,
                      setting.sequence_length, setting.steps);
  return text + fmt::format("seeds: [{}]\nsmoothing: {}\n", fmt::join(setting.seeds, ", "),
                            setting.smoothing);
}

std::string keys_yaml(const std::vector<SchemeKey>& keys) {
  std::vector<std::string> items;
  items.reserve(keys.size());
  for (const SchemeKey& key : keys)
    items.push_back(fmt::format("{}: {}", key.key, yaml_quoted(key.value)));
  return fmt::format("{{{}}}", fmt::join(items, ", "));
}

std::string steps_yaml(const SchemeOutcome& scheme, std::size_t target) {
  std::vector<std::string> items;
  for (const SeedOutcome& seed : scheme.seeds)
    items.push_back(seed.steps[target] ? fmt::format("{:.4f}", *seed.steps[target])
                                       : "not_reached");
  return list_text(items);
}

std::string scheme_yaml(const ConvergenceFactors& factors, std::size_t index) {
  const SchemeOutcome& scheme = factors.schemes[index];
  std::vector<std::string> losses;
  losses.reserve(scheme.seeds.size());
  for (const SeedOutcome& seed : scheme.seeds)
    losses.push_back(seed.end == SeedEnd::trained ? fmt::format("{:.6f}", seed.final_loss)
                                                  : "failed");
  std::string text =
      fmt::format("  - name: {}\n    set: {}\n    warm_up: {}\n", yaml_quoted(scheme.scheme.name),
                  keys_yaml(scheme.scheme.set), scheme.scheme.warm_up);
  text += fmt::format("    sent_per_step: {} B\n", scheme.sent.count());
  if (scheme.staleness) text += fmt::format("    staleness: {:.3f}\n", *scheme.staleness);
  text += fmt::format("    final_loss: {}\n    targets:\n", list_text(losses));
  for (std::size_t target = 0; target < factors.targets.size(); ++target) {
    const StatisticalFactor factor = factor_of(factors, index, target);
    text += fmt::format("      - {{steps: {}, factor: {}", steps_yaml(scheme, target),
                        factor.spread ? fmt::format("{:.4f}", factor.spread->mean) : "not_reached");
    if (factor.spread) text += fmt::format(", spread: {:.4f}", factor.spread->deviation);
    text += "}\n";
  }
  return text;
}

// With steps as they are written, so that the factors of the file are those of its steps.
ConvergenceFactors as_written(ConvergenceFactors factors) {
  constexpr double digits = 1e4;
  for (SchemeOutcome& scheme : factors.schemes)
    for (SeedOutcome& seed : scheme.seeds)
      for (std::optional<double>& steps : seed.steps)
        if (steps) steps = std::round(*steps * digits) / digits;
  return factors;
}

}  // namespace

std::string factors_yaml(const ConvergenceFactors& measured) {
  const ConvergenceFactors factors = as_written(measured);
  std::string text =
      "# Measured by `stepcast convergence`. sim/convergence/README.md says what each key is. The\n"
      "# factors hold for this model, text, batch and number of steps.\nformat: 1\n";
  text += setting_yaml(factors.setting);
  std::vector<std::string> targets;
  for (const LossTarget& target : factors.targets)
    targets.push_back(fmt::format("{{{}: {}}}", word(target.kind), target.value));
  text += fmt::format("targets: {}\nbaseline: {}\nschemes:\n", list_text(targets),
                      yaml_quoted(factors.schemes[factors.baseline].scheme.name));
  for (std::size_t i = 0; i < factors.schemes.size(); ++i)
    text += scheme_yaml(factors, i);
  return text;
}

}  // namespace sim
