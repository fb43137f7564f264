// A classifier trained from a scenario file: what it is trained on, what its collectives were, and
// what is refused.
#include <cmath>
#include <fstream>

#include "real/jobs/collective_report.hpp"
#include "real/jobs/training_run.hpp"
#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_jobs/support.hpp"

namespace real::test {
namespace {

// Two layers of 64, two ranks, dropout, the shipped sentences.
sim::Scenario tiny_classifier(std::vector<std::string> changes) {
  const Folder folder{"classifier"};
  const std::string model = folder.path("tiny.yaml");
  std::ofstream{model} << "source: made for a test\ntransformer: {layers: 2, hidden: 64, heads: 4, "
                          "feed_forward: 128, vocabulary: 400, max_sequence: 16, norm: layer, "
                          "norm_placement: post, activation: gelu, positions: learned, attention: "
                          "bidirectional, biases: all, hidden_dropout: 0.1, attention_dropout: "
                          "0.1, head: classifier, classes: 2}\n";
  changes.push_back("model=" + model);
  return sim::load_scenario(sim::test::source_dir() + "/scenarios/lab/distilbert.yaml", changes);
}

TrainingRun trained(const sim::Scenario& scenario) {
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  TrainingRun run;
  const RunResult result = train_scenario(scenario, plan, {.backend = BackendChoice::host},
                                          [&](const TrainingRun& done) { run = done; });
  INFO(result.message);
  REQUIRE(result.end == RunEnd::done);
  return run;
}

double mean_loss(const TrainingRun& run, std::size_t first, std::size_t count) {
  double sum = 0;
  for (std::size_t i = first; i < first + count; ++i)
    sum += run.steps[i].loss;
  return sum / static_cast<double>(count);
}

}  // namespace

TEST_CASE("a classifier learns the shipped sentences") {
  const sim::Scenario scenario =
      tiny_classifier({"training.steps=300", "training.learning_rate=3e-3"});
  CHECK(training_data(scenario).ends_with("/data/sentences/sentences.tsv"));
  const TrainingRun run = trained(scenario);
  CHECK(std::abs(mean_loss(run, 0, 1) - std::log(2.0)) < 0.3);
  CHECK(mean_loss(run, 280, 20) < 0.25);
}

TEST_CASE("the collectives of a run are listed, and are those of its plan") {
  const sim::Scenario scenario =
      tiny_classifier({"training.steps=2", "layout.overlap.gradients=true", "layout.bucket=64 KiB",
                       "layout.first_bucket=64 KiB"});
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  const TrainingRun run = trained(scenario);
  const auto entries = sim::log_collectives(plan, run.timeline.tracks.front());
  const sim::Program& program = plan.program(sim::RankId{0});
  CHECK(entries.size() == program.parameter_buckets.size() + 1);  // and the gradient norm
  sim::Bytes reduced{};
  for (const sim::CollectiveEntry& entry : entries) {
    CHECK(entry.ready <= entry.launched);
    CHECK(entry.launched <= entry.active);
    CHECK(entry.active <= entry.done);
    CHECK(entry.ready > sim::TimePoint{});
    CHECK(entry.exposed() >= sim::Duration{});
    CHECK(entry.ranks == 2);
    if (entry.bucket) reduced += entry.bytes;
  }
  CHECK(reduced.count() >= 4 * scenario.model.parameters());
  CHECK(reduced.count() < 4 * scenario.model.parameters() + 4096);
  const auto alone = times_alone(scenario, plan, sim::RankId{0}, entries);
  REQUIRE(alone.size() == entries.size());
  for (const sim::Duration time : alone)
    CHECK(time > sim::Duration{});
  const std::string text = collective_report(scenario, plan, run);
  CHECK(text.starts_with("collectives of rank 0 in the last step\n"));
  CHECK(text.find("gradient_norm.all_reduce") != std::string::npos);
  CHECK(collective_report(scenario, plan, {}) ==
        "no collectives: the run was interrupted before the recorded step\n");
}

TEST_CASE("sentences that are none are refused with their line") {
  const Folder folder{"sentences"};
  const std::string path = folder.path("bad.tsv");
  std::ofstream{path} << "good\tfine\nno tab\n";
  const sim::Scenario scenario = tiny_classifier({"training.data=" + path});
  try {
    trained(scenario);
    FAIL("it was taken");
  } catch (const sim::InputError& error) {
    REQUIRE(error.problems().size() == 1);
    CHECK(error.problems().front().where.file == path);
    CHECK(error.problems().front().where.line == 2);
  }
}

}  // namespace real::test
