// The section `budget` of a scenario, and the quantities that only it has: what is accepted is
// finite and is written so that it reads back exactly.
#include "sim/economics/budget.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "tests/fuzz/support/scratch_file.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using fuzz::require;

void check_quantities(std::string_view text) {
  const auto time = sim::parse_time(text);
  if (const auto* value = std::get_if<sim::Seconds>(&time))
    require(std::get<sim::Seconds>(sim::parse_time(sim::exact_text(*value))) == *value);
  const auto power = sim::parse_power(text);
  if (const auto* value = std::get_if<sim::Power>(&power))
    require(std::get<sim::Power>(sim::parse_power(sim::exact_text(*value))).watts == value->watts);
  const auto money = sim::parse_money(text);
  if (const auto* value = std::get_if<sim::Money>(&money))
    require(std::get<sim::Money>(sim::parse_money(sim::exact_text(*value))).amount ==
            value->amount);
}

// A scenario that is read from the file with the section.
sim::Scenario scenario_of(const fuzz::ScratchFile& file) {
  sim::Scenario scenario =
      sim::load_scenario(sim::test::source_dir() + "/scenarios/gpt2-124m-8-h100.yaml");
  scenario.path = file.path();
  return scenario;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchFile file;
  static const sim::Scenario scenario = scenario_of(file);
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  check_quantities(text.substr(0, text.find('\n')));
  try {
    file.write(text);
    const sim::Budget budget = sim::load_budget(scenario);
    for (const double value : {budget.gpu_watts, budget.node_watts, budget.pue, budget.confidence})
      require(std::isfinite(value));
    require(budget.runs > 0 && !budget.assumptions.empty());
    require(!sim::resolved_scenario(scenario, budget, "/").empty());
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
  return 0;
}
