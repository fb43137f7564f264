#include "sim/scenario/read/read_anchor.hpp"

#include <fmt/format.h>

#include <utility>

#include "sim/uncertainty/time_error.hpp"

namespace sim {
namespace {

std::string unlike_text(const Anchor& anchor, const Scenario& scenario) {
  return fmt::format("{}: runs of {} on {} were measured; this is {} on {}", scenario.anchor_path,
                     word(anchor.framework), anchor.device, word(scenario.framework.name),
                     scenario.cluster.device().name);
}

}  // namespace

void set_factors(const TimeErrors& errors, Scenario& scenario) {
  scenario.options.factors = errors.factors(traits_of(scenario, {}));
}

JobTraits traits_of(const Scenario& scenario, const StepShares& shares) {
  JobTraits traits =
      traits_of(scenario.model, scenario.framework.name, scenario.layout, scenario.cluster, shares);
  add_software_traits(scenario, traits);
  return traits;
}

void add_software_traits(const Scenario& scenario, JobTraits& traits) {
  traits.named = scenario.names_framework;
  if (scenario.preset && !scenario.preset->measured) traits.preset = text_of(*scenario.preset);
  for (const Note& note : scenario.notes)
    if (note.unmodelled) traits.unmodelled.push_back(note.key);
}

void add_anchor(const Layered& simulation, Scenario& scenario) {
  const Anchor anchor = load_anchor(scenario.anchor_path);
  if (anchor.device != scenario.cluster.device().name ||
      anchor.framework != scenario.framework.name)
    simulation.problem("anchor", unlike_text(anchor, scenario));
  if (simulation.has("time_factors"))
    simulation.problem("time_factors", "simulation.anchor sets them: leave out one of the two");
  if (scenario.options.collectives == CollectiveModel::stepwise)
    simulation.problem("anchor",
                       "its factors are of fluid collectives: set collectives: fluid, or leave "
                       "the anchor out");
  const std::optional<TimeErrors>& published = shipped_time_errors();
  if (!published) {
    simulation.problem("anchor", "the data folder has no validation/time-error.yaml to start from");
    return;
  }
  const auto errors = std::make_shared<const TimeErrors>(published->anchored(anchor));
  set_factors(*errors, scenario);
  scenario.anchored = errors;
}

}  // namespace sim
