// A plan that is written as execution traces and read again takes the same step.
#include "sim/chakra/write_et.hpp"

#include <filesystem>

#include "sim/chakra/et_plan.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;
using namespace sim::test;

namespace {

double seconds(const Simulation& simulated) {
  return to_seconds(simulated.timeline.end - TimePoint{});
}

// The step of the plan alone: no host, and communication takes nothing of kernels.
double step_of(const Scenario& scenario, const Plan& plan) {
  SimulationOptions options = scenario.options;
  options.graphs = true;
  options.interference = false;
  return seconds(simulate(plan, scenario.cluster, options));
}

double written_step_of(const Scenario& scenario, const Plan& plan, const std::string& name) {
  const auto folder = std::filesystem::temp_directory_path() / ("stepcast_test_et_" + name);
  std::filesystem::remove_all(folder);
  const WrittenEt written =
      write_et(folder.string(), name, plan, scenario.cluster, scenario.options);
  CHECK(written.files == plan.program_of_rank.size());
  const EtRun run = read_et_folder(folder.string());
  std::filesystem::remove_all(folder);
  return seconds(simulate(plan_of(run).plan, scenario.cluster,
                          {.fold = false, .graphs = true, .interference = false}));
}

}  // namespace

TEST_CASE("execution traces: a plan written and read again takes the same step, but for rounding") {
  const std::vector<std::vector<std::string>> layouts{
      {"layout.data_parallel=8"},
      {"layout.tensor_parallel=4", "layout.data_parallel=2"},
      {"layout.pipeline_parallel=4", "layout.data_parallel=2"},
      {"layout.context_parallel=2", "layout.tensor_parallel=2", "layout.pipeline_parallel=2",
       "layout.data_parallel=1"}};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const Scenario scenario =
        load_scenario(source_dir() + "/scenarios/gpt2-124m-8-h100.yaml", layouts[i]);
    const Plan plan = make_plan(scenario.model, scenario.layout);
    const double own = step_of(scenario, plan);
    const double read = written_step_of(scenario, plan, std::to_string(i));
    INFO("layout " << i << ": " << own << " s, written " << read << " s");
    CHECK(std::abs(read / own - 1) < 0.01);
  }
}
