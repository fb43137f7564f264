// Features meet: every two values of keys of the layout and the framework, under every preset and
// schedule, are refused by the loading of the scenario, or planned, checked and simulated.
//   STEPCAST_PAIRS=20000 build/release/tests/property/test_pairs   more of them, by hand
//   STEPCAST_PAIRS_SEED=7                                           others
#include "sim/base/input_error.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/catch.hpp"
#include "tests/property/chosen.hpp"
#include "tests/property/pair_scenarios.hpp"
#include "tests/support/check_plan.hpp"

namespace {

using namespace sim;
using namespace sim::test;

// Empty, or what went wrong.
std::string failure_of(const Scenario& scenario) {
  try {
    check_plan(make_plan(scenario.model, scenario.layout));
    static_cast<void>(forecast(scenario));
    return {};
  } catch (const InputError& error) {
    return "refused behind the check of the layout: " + error.problems().front().what;
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST_CASE("scenarios in which values meet are refused by their check, or simulated", "[pairs]") {
  const std::uint64_t count = chosen("STEPCAST_PAIRS", 400);
  PairScenarios scenarios{chosen("STEPCAST_PAIRS_SEED", 1), all_pairs()};
  for (std::uint64_t i = 0; i < count; ++i) {
    PairScenario pair = scenarios.next();
    const std::string failure = failure_of(pair.scenario);
    if (failure.empty()) continue;
    const PairScenario least = scenarios.shrunk(
        std::move(pair), [](const Scenario& scenario) { return !failure_of(scenario).empty(); });
    FAIL_CHECK(failure_of(least.scenario) << "\n" << least.yaml);
  }
  CHECK(scenarios.pairs_met() > 50 * count);
  if (count > 1000)
    WARN(scenarios.pairs_met() << " pairs of " << scenarios.values() << " values have met");
}

TEST_CASE("values meet a vision encoder that runs", "[pairs]") {
  PairOptions options = all_pairs();
  for (const SmallModel& model : small_models())
    if (model.name == "vision") options.models = {model.yaml};
  REQUIRE(options.models.size() == 1);
  options.fixed["layout.images"] = "2";
  PairScenarios scenarios{chosen("STEPCAST_PAIRS_SEED", 1), options};
  for (std::uint64_t i = 0; i < chosen("STEPCAST_PAIRS", 400) / 8; ++i) {
    const PairScenario pair = scenarios.next();
    INFO(pair.yaml);
    CHECK(failure_of(pair.scenario).empty());
    CHECK(pair.scenario.model.has_vision());
  }
}

TEST_CASE("every key of the layout and the framework is drawn, but for those listed", "[pairs]") {
  CHECK(keys_not_drawn() == std::vector<std::string>{"layout.data_parallel",
                                                     "layout.layers_per_stage", "framework.name",
                                                     "framework.version"});
}

}  // namespace
