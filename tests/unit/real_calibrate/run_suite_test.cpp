// Runs of a suite leave records that say what was run, how long it took, and what it learned.
#include "real/calibrate/run_suite.hpp"

#include <filesystem>

#include "real/calibrate/grid.hpp"
#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/temporary.hpp"

namespace {

using namespace real;

TEST_CASE("facts of a run survive their record") {
  sim::Record record;
  record.origin.provenance = to_provenance(
      {.first_loss = 5.545177444479562, .last_loss = 0.1, .device_memory = sim::Bytes{123456789}});
  const RunFacts facts = facts_of(record, "r.json");
  CHECK(facts.first_loss == 5.545177444479562);
  CHECK(facts.last_loss == 0.1);
  CHECK(facts.device_memory == sim::Bytes{123456789});
  CHECK(facts.references.whole.empty());
  record.origin.provenance.pop_back();
  CHECK_THROWS_AS(facts_of(record, "r.json"), sim::InputError);
}

TEST_CASE("the reference beside a run's steps survives its record, or is refused") {
  sim::Record record;
  record.origin.steps = {std::chrono::milliseconds{1}};
  const StepReferences references{
      .product = {1e-4, 1.5e-4, 2e-4}, .copy = {3e-5, 2e-5, 1e-5}, .whole = {1.25e-4, 1e-3, 1}};
  record.origin.provenance = to_provenance({.references = references});
  const StepReferences read = facts_of(record, "r.json").references;
  CHECK(read.product == references.product);
  CHECK(read.copy == references.copy);
  CHECK(read.whole == references.whole);
  record.origin.steps.push_back(std::chrono::milliseconds{1});
  CHECK_THROWS_WITH(facts_of(record, "r.json"),
                    "r.json: error: its provenance has 3 values of the reference for 2 steps; it "
                    "needs 4, all above 0");
}

TEST_CASE("a run leaves a record with its program, its steps and a loss") {
  const std::string folder = std::filesystem::temp_directory_path().string();
  const GridProgram grid =
      grid_program({.hidden = 64, .sequence = 32, .micro_batch = 2}, sim::DType::fp32);
  SuiteRequest request;
  request.folder = folder;
  request.warm_up_steps = 1;
  request.measured_steps = 2;
  request.runs = {
      {.name = "stepcast-run-suite-test", .what = {.plan = &grid.plan, .model = &grid.model}}};
  request.runs[0].training.data = sim::test::source_dir() + "/data/corpus/tales.txt";
  const RunResult result = run_suite(request);
  INFO(result.message);
  REQUIRE(result.end == RunEnd::done);
  const std::string path = record_path(folder, request.runs[0].name);
  const sim::Record record = sim::read_record(path);
  std::filesystem::remove(path);
  CHECK(record.engine == "host");
  // More of them where the machine is not calm.
  CHECK(record.origin.steps.size() >= 2);
  CHECK(record.origin.steps.size() <= 6);
  REQUIRE(record.tracks.size() == 1);
  CHECK(record.tracks[0].spans.size() == grid.plan.programs[0].size());
  CHECK(record.tracks[0].peak_memory > sim::Bytes{});
  const RunFacts facts = facts_of(record, path);
  // 256 equally likely bytes: ln 256 = 5.545, before the first step and a few steps after it.
  CHECK_THAT(facts.first_loss, WithinRel(5.545, 0.05));
  CHECK(facts.last_loss < facts.first_loss);
  CHECK(facts.references.whole.size() == record.origin.steps.size() + 2);
}

TEST_CASE("a run of another number of ranks is refused by name") {
  const GridProgram grid =
      grid_program({.hidden = 64, .sequence = 32, .micro_batch = 2}, sim::DType::fp32);
  SuiteRequest request;
  request.ranks = 2;
  request.runs = {{.name = "small",
                   .what = {.plan = &grid.plan, .model = &grid.model, .source = "small.yaml"}}};
  CHECK_THROWS_WITH(run_suite(request), "small.yaml: error: small has 1 ranks, the suite 2");
}

}  // namespace
