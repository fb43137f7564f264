#include "sim/cli/unvalidated_note.hpp"

#include "sim/base/input_error.hpp"
#include "sim/cli/command.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scenario/sources.hpp"
#include "sim/topology/unvalidated.hpp"

namespace sim {

void note_unvalidated(const Cluster& cluster) {
  const std::string line = unvalidated_line(unvalidated(cluster));
  if (!line.empty()) print_note(line);
}

void note_unvalidated(const std::string& scenario, const std::vector<std::string>& overrides) {
  try {
    note_unvalidated(load_workload(ScenarioSources{scenario, overrides}).cluster);
  } catch (const InputError&) {
    // A key that only the sweep sets: its points were forecast, so the machine is theirs.
  }
}

}  // namespace sim
