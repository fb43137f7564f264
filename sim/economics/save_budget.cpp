// A scenario with every key and every assumption in it, as YAML that can be run again.
#include <fmt/format.h>

#include "sim/config/yaml_text.hpp"
#include "sim/economics/budget.hpp"
#include "sim/scenario/write_scenario.hpp"

namespace sim {
namespace {

// The assumptions of one section stand together. Their values are words and quantities, never text
// of the user: they stand without quotes.
std::string assumptions_yaml(const std::vector<Assumption>& assumptions) {
  std::string text = "\nbudget:\n";
  std::string section;
  for (const Assumption& assumption : assumptions) {
    const std::size_t dot = assumption.key.find('.');
    const bool inner = dot != std::string::npos;
    const std::string head = inner ? assumption.key.substr(0, dot) : "";
    if (inner && head != section) text += fmt::format("  {}:\n", head);
    section = head;
    text += fmt::format("{}{}: {}\n", inner ? "    " : "  ",
                        inner ? assumption.key.substr(dot + 1) : assumption.key, assumption.value);
  }
  text += "  sources:\n";
  for (const Assumption& assumption : assumptions)
    text += fmt::format("    {}: {}\n", assumption.key, yaml_quoted(assumption.source));
  return text;
}

}  // namespace

std::string resolved_scenario(const Scenario& scenario, const Budget& budget,
                              const std::string& folder) {
  return scenario_yaml(scenario, folder) + assumptions_yaml(budget.assumptions);
}

}  // namespace sim
