// A rank is lost, and the others go on: with the losses of a run that was started without it.
#include "real/jobs/elastic.hpp"

#include <thread>

#include "real/jobs/training_run.hpp"
#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_jobs/support.hpp"

namespace real::test {
namespace {

sim::Scenario replicas(int count, std::int64_t batch, int steps, int tensor = 1) {
  sim::Scenario scenario = tiny_scenario(steps);
  scenario.layout.tensor_parallel = tensor;
  scenario.layout.pipeline_parallel = 1;
  scenario.layout.virtual_stages = 1;
  scenario.layout.sequence_parallel = false;
  scenario.layout.zero_stage = 0;
  scenario.layout.micro_batch = 1;
  scenario.layout.data_parallel = count;
  scenario.layout.global_batch = batch;
  return scenario;
}

TrainingRun run_of(const sim::Scenario& scenario, TrainingRunOptions options) {
  options.backend = BackendChoice::host;
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  TrainingRun run;
  const RunResult result =
      train_scenario(scenario, plan, options, [&](const TrainingRun& done) { run = done; });
  INFO(result.message);
  REQUIRE(result.end == RunEnd::done);
  return run;
}

// Three steps by `all`, written to a file; the others from it by those that are left.
std::vector<double> losses_of_restart(const sim::Scenario& all, const sim::Scenario& left) {
  const Folder folder{"elastic"};
  std::vector<double> losses;
  for (const StepResult& step : run_of(all, {.checkpoint = folder.path("kept")}).steps)
    losses.push_back(step.loss);
  for (const StepResult& step : run_of(left, {.resume = folder.path("kept")}).steps)
    losses.push_back(step.loss);
  return losses;
}

std::vector<double> losses_of(const TrainingRun& run) {
  std::vector<double> losses;
  for (const StepResult& step : run.steps)
    losses.push_back(step.loss);
  return losses;
}

}  // namespace

TEST_CASE("those that are left have the losses of a run that was started without the lost rank") {
  const int lost = GENERATE(0, 1, 2);
  const bool keeps_batch = GENERATE(false, true);
  CAPTURE(lost, keeps_batch);
  const sim::Scenario all = replicas(3, 6, 6);
  const sim::Scenario left = replicas(2, keeps_batch ? 6 : 4, 6);
  const TrainingRun run = run_of(
      all,
      {.elastic = keeps_batch ? ElasticBatch::fixed_batch : ElasticBatch::fixed_batch_per_replica,
       .inject = "fail:" + std::to_string(lost) + ":step 3"});
  CHECK(losses_of(run) == losses_of_restart(replicas(3, 6, 3), left));
  REQUIRE(run.lost.size() == 1);
  CHECK(run.lost[0].rank == lost);
  CHECK(run.lost[0].step == 3);
  CHECK(run.lost[0].replicas == 2);
  CHECK(run.lost[0].global_batch == left.layout.global_batch);
  CHECK(run.next_step == 6);
  CHECK(run.memory.size() == 2);
}

TEST_CASE("a replica of several ranks stops as a whole") {
  const sim::Scenario all = replicas(3, 6, 5, 2);
  const sim::Scenario left = replicas(2, 4, 5, 2);
  const TrainingRun run =
      run_of(all, {.elastic = ElasticBatch::fixed_batch_per_replica, .inject = "fail:3:step 3"});
  CHECK(losses_of(run) == losses_of_restart(replicas(3, 6, 3, 2), left));
  CHECK(run.memory.size() == 4);
}

TEST_CASE("without a loss an elastic run is as any other") {
  const sim::Scenario scenario = replicas(2, 4, 3);
  CHECK(losses_of(run_of(scenario, {.elastic = ElasticBatch::fixed_batch})) ==
        losses_of(run_of(scenario, {})));
}

TEST_CASE("a lost rank ends a run that is not elastic") {
  const sim::Scenario scenario = replicas(2, 4, 3);
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  const RunResult result =
      train_scenario(scenario, plan, {.backend = BackendChoice::host, .inject = "fail:1:step 1"},
                     [](const TrainingRun&) { FAIL("no report"); });
  CHECK(result.end == RunEnd::failed);
}

TEST_CASE("a smaller job that is none is refused before anything starts") {
  const auto refusal = [](const sim::Scenario& scenario, ElasticBatch batch) {
    const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
    try {
      require_executable(scenario, plan, {.backend = BackendChoice::host, .elastic = batch});
    } catch (const sim::InputError& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  CHECK(refusal(replicas(3, 6, 1), ElasticBatch::fixed_batch).empty());
  // 4 sequences on 4 replicas are none on 3.
  CHECK(refusal(replicas(4, 4, 1), ElasticBatch::fixed_batch)
            .find("with 3 replicas the job cannot go on") != std::string::npos);
  CHECK(refusal(replicas(4, 4, 1), ElasticBatch::fixed_batch_per_replica).empty());
  CHECK(refusal(replicas(1, 4, 1), ElasticBatch::fixed_batch).find("layout.data_parallel") !=
        std::string::npos);
  sim::Scenario sharded = replicas(3, 6, 1);
  sharded.layout.zero_stage = 1;
  CHECK(refusal(sharded, ElasticBatch::fixed_batch).find("layout.zero_stage") != std::string::npos);
}

}  // namespace real::test
