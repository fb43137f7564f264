// A scenario trained through the library: what comes back, and what is refused.
#include "real/jobs/training_run.hpp"

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_jobs/support.hpp"

namespace real::test {
namespace {

TrainingRun trained(const sim::Scenario& scenario, const TrainingRunOptions& options) {
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  TrainingRun run;
  const RunResult result =
      train_scenario(scenario, plan, options, [&](const TrainingRun& done) { run = done; });
  INFO(result.message);
  REQUIRE(result.end == RunEnd::done);
  return run;
}

}  // namespace

TEST_CASE("a run has its steps, a timeline of every rank, and memory") {
  std::vector<std::string> lines;
  const TrainingRun run =
      trained(tiny_scenario(5), {.backend = BackendChoice::host,
                                 .warm_up = 2,
                                 .log_every = 2,
                                 .log = [&](const std::string& line) { lines.push_back(line); }});
  CHECK(run.backend == "host");
  CHECK(run.launched_by == "threads");
  REQUIRE(run.steps.size() == 5);
  CHECK(run.next_step == 5);
  CHECK(run.steps.back().loss < run.steps.front().loss);
  CHECK(run.warm_up == 2);
  CHECK(run.counted_times().size() == 3);
  CHECK(run.timeline.tracks.size() == 2);
  CHECK(run.memory.size() == 2);
  CHECK(run.planned_arena.size() == 2);
  CHECK(run.memory[0].arena == run.planned_arena[0]);
  REQUIRE(lines.size() == 3);  // of steps 0, 2 and 4
  CHECK(lines[1].starts_with("step 2 of 5: loss "));
}

TEST_CASE("a checkpoint is gone on with") {
  const Folder folder{"training-run"};
  const TrainingRun whole = trained(tiny_scenario(4), {.backend = BackendChoice::host});
  trained(tiny_scenario(2), {.backend = BackendChoice::host, .checkpoint = folder.path("kept")});
  const TrainingRun rest =
      trained(tiny_scenario(4), {.backend = BackendChoice::host, .resume = folder.path("kept")});
  REQUIRE(rest.steps.size() == 2);
  CHECK(rest.steps.back().loss == whole.steps.back().loss);
  CHECK(rest.warm_up == 1);  // of two steps, one is left to be counted
  const TrainingRun nothing =
      trained(tiny_scenario(2), {.backend = BackendChoice::host, .resume = folder.path("kept")});
  CHECK(nothing.steps.empty());
  CHECK(nothing.next_step == 2);
}

TEST_CASE("an algorithm that the engine does not have is refused by its key") {
  sim::Scenario scenario = tiny_scenario(1);
  CHECK(algorithms_of(scenario).of(sim::GroupRole::tensor) == AlgorithmChoice::automatic);
  scenario.options.data_choice.algorithm = sim::Algorithm::ring;
  CHECK(algorithms_of(scenario).of(sim::GroupRole::data) == AlgorithmChoice::ring);
  CHECK(algorithms_of(scenario).of(sim::GroupRole::tensor) == AlgorithmChoice::automatic);
  scenario.options.tensor_choice.algorithm = sim::Algorithm::in_switch;
  CHECK_THROWS_WITH(algorithms_of(scenario),
                    scenario.path +
                        ": error: simulation.tensor_algorithm: the engine does not execute "
                        "in_switch; allowed: auto, ring, tree, halving_doubling, hierarchical");
}

TEST_CASE("the shipped text is trained on where a scenario names none") {
  sim::Scenario scenario = tiny_scenario(1);
  CHECK(training_data(scenario).ends_with("/data/corpus/tales.txt"));
  scenario.training.data = "mine.tokens";
  CHECK(training_data(scenario) == "mine.tokens");
}

}  // namespace real::test
