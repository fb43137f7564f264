#include "sim/engine/simulator.hpp"

#include <array>

#include "sim/engine/fold.hpp"
#include "tests/catch.hpp"
#include "tests/property/random_scenario.hpp"

using namespace sim;

namespace {

using Switch = bool SimulationOptions::*;
constexpr std::array<Switch, 8> free_resources{
    &SimulationOptions::free_compute,  &SimulationOptions::free_memory_traffic,
    &SimulationOptions::free_tensor,   &SimulationOptions::free_context,
    &SimulationOptions::free_expert,   &SimulationOptions::free_data,
    &SimulationOptions::free_pipeline, &SimulationOptions::free_host};

TimePoint end_of(const Simulation& simulation) {
  return simulation.timeline.end;
}

}  // namespace

TEST_CASE("a system that is priced again gives what a new one gives", "[simulator]") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const test::RandomScenario drawn = test::random_scenario(seed);
    INFO(drawn.yaml);
    const Scenario& scenario = drawn.scenario;
    const Plan plan = make_plan(scenario.model, scenario.layout);
    const Simulator simulator{plan, scenario.cluster, scenario.options};
    CHECK(end_of(simulator.run(scenario.options)) ==
          end_of(simulate(plan, scenario.cluster, scenario.options)));
    for (const Switch resource : free_resources) {
      SimulationOptions options = scenario.options;
      options.*resource = true;
      CHECK(end_of(simulator.run(options)) == end_of(simulate(plan, scenario.cluster, options)));
    }
  }
}

TEST_CASE("options that ask for another wiring get one", "[simulator]") {
  const Scenario scenario = test::random_scenario(3).scenario;
  const Plan plan = make_plan(scenario.model, scenario.layout);
  const Simulator simulator{plan, scenario.cluster, scenario.options};
  SimulationOptions slow = scenario.options;
  slow.stragglers.push_back({RankId{0}, 1.5});
  SimulationOptions alone = scenario.options;
  alone.link_contention = false;
  SimulationOptions whole = scenario.options;
  whole.fold = false;
  for (const SimulationOptions& options : {slow, alone, whole})
    CHECK(end_of(simulator.run(options)) == end_of(simulate(plan, scenario.cluster, options)));
  CHECK(end_of(simulator.run(slow)) > end_of(simulator.run(scenario.options)));
}
