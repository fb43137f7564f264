// Runs on a network that drops messages.
#include "real/jobs/training_run.hpp"
#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_jobs/support.hpp"

namespace real::test {
namespace {

sim::Scenario on_network(std::vector<std::string> keys) {
  std::vector<std::string> all{
      "layout.tensor_parallel=1",  "layout.data_parallel=4", "layout.sequence_parallel=false",
      "layout.sequence_length=16", "layout.global_batch=8",  "layout.micro_batch=1",
      "training.steps=6"};
  all.insert(all.end(), keys.begin(), keys.end());
  return sim::load_scenario(sim::test::source_dir() + "/scenarios/real/llama-byte-tp2-dp2.yaml",
                            all);
}

std::vector<double> losses(std::vector<std::string> keys, const DroppingNetwork& network = {}) {
  const sim::Scenario scenario = on_network(std::move(keys));
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  std::vector<double> found;
  const RunResult result =
      train_scenario(scenario, plan, {.backend = BackendChoice::host, .network = network},
                     [&](const TrainingRun& run) {
                       for (const StepResult& step : run.steps)
                         found.push_back(step.loss);
                     });
  INFO(result.message);
  REQUIRE(result.end == RunEnd::done);
  return found;
}

}  // namespace

TEST_CASE("messages that are sent again change no loss") {
  CHECK(losses({}, {.rate = 0.2, .timeout = 20e-6}) == losses({}));
}

TEST_CASE("messages that are lost change the losses, the same ones every time") {
  const std::vector<std::string> scheme =
      GENERATE(std::vector<std::string>{}, std::vector<std::string>{"layout.zero_stage=1"},
               std::vector<std::string>{"layout.compression.gradients=top_k"},
               std::vector<std::string>{"layout.compression.gradients=random_k"},
               std::vector<std::string>{"layout.compression.gradients=power_sgd"},
               std::vector<std::string>{"layout.local_steps.every=2"});
  const DroppingNetwork network{.rate = 0.3, .dropped = DroppedMessages::lost};
  const std::vector<double> first = losses(scheme, network);
  CHECK(first == losses(scheme, network));
  CHECK(first.front() == losses(scheme).front());  // before any update
  CHECK(first != losses(scheme));
}

TEST_CASE("averages without a message of each rank are refused where messages are lost") {
  const sim::Scenario scenario =
      on_network({"layout.zero_stage=3", "layout.compression.gradients=int8"});
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  CHECK_THROWS_WITH(
      require_executable(scenario, plan,
                         {.backend = BackendChoice::host,
                          .network = {.rate = 0.1, .dropped = DroppedMessages::lost}}),
      contains_text("layout.compression.gradients"));
}

}  // namespace real::test
