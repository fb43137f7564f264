// A suite beside its forecasts: which scenarios, what a missing record is, how it is scored.
#include "real/jobs/suite_run.hpp"

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/unit/real_jobs/support.hpp"

namespace real::test {
namespace {

sim::RealSuite host_suite() {
  return sim::load_real_suite(sim::test::source_dir() + "/validation/real/host-2.yaml");
}

// One of the suite, short, on a cluster that is shipped.
sim::RealSuite short_suite() {
  sim::RealSuite suite = choose_scenarios(host_suite(), {"gpt-dp"},
                                          sim::test::source_dir() + "/topologies/cpu-cores.yaml");
  suite.warm_up_steps = 1;
  suite.measured_steps = 2;
  return suite;
}

}  // namespace

TEST_CASE("of a suite some scenarios are chosen by name") {
  const std::string cluster = sim::test::source_dir() + "/topologies/cpu-cores.yaml";
  const sim::RealSuite some = choose_scenarios(host_suite(), {"gpt-zero-1", "gpt-dp"}, cluster);
  REQUIRE(some.scenarios.size() == 2);
  CHECK(some.scenarios[0].name == "gpt-zero-1");
  CHECK(some.cluster == cluster);
  CHECK(some.bounds.scored == 2);
  CHECK(choose_scenarios(host_suite(), {}, cluster).scenarios.size() > 20);
  CHECK_THROWS_WITH(choose_scenarios(host_suite(), {"none"}, cluster),
                    some.path + ": error: there is no scenario 'none'");
  CHECK_THROWS_WITH(choose_scenarios(host_suite(), {}, "/no/such.yaml"),
                    "/no/such.yaml: error: there is no such cluster file; `stepcast calibrate` "
                    "writes it");
}

TEST_CASE("a suite that was not run has forecasts alone") {
  const Folder folder{"suite-run"};
  const sim::RealSuite suite = short_suite();
  const sim::RealResult result = score_suite(suite, forecast_suite(suite), folder.path());
  REQUIRE(result.rows.size() == 1);
  CHECK(result.rows[0].failed == "no record");
  CHECK(result.rows[0].predicted > sim::Duration{});
  CHECK(result.rows[0].layout.find("dp 2") != std::string::npos);
  CHECK(result.score.scored == 0);
}

TEST_CASE("a suite that was run did the work that was forecast, in the memory that was planned") {
  const Folder folder{"suite-run"};
  const sim::RealSuite suite = short_suite();
  std::vector<SuiteForecast> forecasts = forecast_suite(suite);
  CHECK(run_scenarios(suite, forecasts, {.folder = folder.path(), .arguments = [](std::size_t) {
                                           return std::vector<std::string>{};
                                         }}) == RunEnd::done);
  const sim::RealResult result = score_suite(suite, std::move(forecasts), folder.path());
  REQUIRE(result.rows.size() == 1);
  const sim::RealRow& row = result.rows[0];
  INFO(row.failed << row.difference);
  CHECK(row.failed.empty());
  CHECK(row.difference.empty());
  CHECK(row.used_memory == row.planned_memory);
  CHECK(row.steps.size() >= 2);
  CHECK(row.measured > sim::Duration{});
  CHECK(result.score.scored == 1);
  // The shipped cores were never calibrated here.
  CHECK(result.without_drift == "the calibration has no reference; calibrate again");
}

}  // namespace real::test
