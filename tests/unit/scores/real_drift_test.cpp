// The drift of a machine taken out of steps, from numbers that can be followed by hand.
#include "sim/scores/real/real_drift.hpp"

#include <filesystem>
#include <fstream>

#include "sim/scores/real/real_tables.hpp"
#include "sim/scores/real/run_score.hpp"
#include "tests/catch.hpp"

namespace {

using namespace sim;
using namespace std::chrono_literals;

constexpr ReferenceTimes calibrated{.product = 4, .copy = 1, .whole = 5};

// Steps of 10 s on a machine that is as many times slower as `slowdowns` says beside each step.
StepsBesideReference steps_of(const std::vector<double>& slowdowns) {
  StepsBesideReference run;
  for (std::size_t i = 0; i < slowdowns.size(); ++i) {
    if (i + 2 < slowdowns.size()) run.steps.push_back(10 * (slowdowns[i] + slowdowns[i + 1]) / 2);
    run.whole.push_back(5 * slowdowns[i]);
    run.product.push_back(4);
    run.copy.push_back(1);
  }
  return run;
}

TEST_CASE("a step is divided by how much slower the reference was on both sides of it") {
  const Drift drift = take_out_drift(steps_of({1, 3, 3, 1, 1, 1, 2, 2}), calibrated);
  CHECK_THAT(drift.measured, WithinRel(10.0, 1e-12));
  // Beside the steps 2, 3, 2, 1, 1, 1.5; beside the recorded ones 2.
  CHECK_THAT(drift.slowdown, WithinRel(1.75, 1e-12));
  CHECK_THAT(drift.recorded, WithinRel(2.0, 1e-12));
  CHECK(drift.left < 1e-12);
}

TEST_CASE("what is left is the interval of the steps, and half of what GEMM and copy disagree by") {
  StepsBesideReference run = steps_of({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  REQUIRE(run.steps.size() == 9);
  run.steps = {9, 9.5, 10, 10, 10, 10, 10, 10.5, 11};
  // The order statistics 9/2 -+ 2.94 of nine: places 1 and 8.
  CHECK_THAT(take_out_drift(run, calibrated).left, WithinRel((11 - 9.5) / 2 / 10, 1e-9));
  run.steps.assign(9, 10);
  for (double& copy : run.copy)
    copy = 1.2;
  CHECK_THAT(take_out_drift(run, calibrated).left, WithinRel(0.1, 1e-9));
  // Fewer than five steps have their range.
  StepsBesideReference few = steps_of({1, 1, 1, 1, 1});
  few.steps = {10, 11, 10};
  CHECK_THAT(take_out_drift(few, calibrated).left, WithinRel(0.05, 1e-9));
}

TEST_CASE("ranks that wait do not lose what the correction takes off their waiting") {
  const StepsBesideReference calm = steps_of({1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(take_out_drift(calm, calibrated, 0.4).left < 1e-12);
  // Five times slower: four fifths of the time were taken off, of the waiting as well.
  const StepsBesideReference slow = steps_of({5, 5, 5, 5, 5, 5, 5, 5});
  CHECK_THAT(take_out_drift(slow, calibrated, 0.4).left, WithinRel(0.4 * 0.8, 1e-9));
}

RealRow drifted(const std::string& name, double slowdown, double left) {
  RealRow row;
  row.name = name;
  row.family = "tiny";
  row.predicted = 12ms;
  row.measured = 10ms;
  row.as_timed = duration_from_seconds(0.010 * slowdown);
  row.steps = {row.as_timed};
  row.planned_memory = row.used_memory = Bytes{1 << 20};
  row.drift = Drift{.measured = 0.010, .slowdown = slowdown, .left = left};
  return row;
}

TEST_CASE("no verdict on step times that are known less well than the bound") {
  const std::vector<RealRow> rows{drifted("a", 1.5, 0.04), drifted("b", 2.0, 0.30),
                                  drifted("c", 1.2, 0.02)};
  const RealScore score = score_real(rows);
  CHECK_THAT(score.drift.value(), WithinRel(0.5, 1e-9));
  CHECK_THAT(score.drift_left.value(), WithinRel(0.04, 1e-9));
  CHECK_THAT(score.most_drift, WithinRel(1.0, 1e-9));
  // All errors are 20%. The median is known to 4%: it is judged by a bound of 10%, not by one of
  // 3%.
  CHECK(too_noisy(score, {.median_step_error = 0.1}).empty());
  CHECK(
      exceeded(score, {.median_step_error = 0.1}) ==
      std::vector<std::string>{"the median error of the step time is 20.00%, the bound is 10.00%"});
  CHECK(
      too_noisy(score, {.median_step_error = 0.03}) ==
      std::vector<std::string>{"machine too noisy: drift 4.0% above 3.0% is left beside the steps "
                               "(median of the scenarios)"});
  CHECK(exceeded(score, {.median_step_error = 0.03}).empty());
  // Memory and work are judged all the same.
  std::vector<RealRow> other = rows;
  other[0].difference = "another operator";
  CHECK(exceeded(score_real(other), {.median_step_error = 0.03}).size() == 1);
}

TEST_CASE("the drift is in the tables, and why it is not") {
  RealResult result;
  result.suite.name = "tiny-2";
  result.suite.bounds = {.scored = 1, .median_step_error = 0.03};
  result.rows = {drifted("a", 1.5, 0.04), drifted("b", 2.0, 0.05)};
  result.score = score_real(result.rows);
  const std::string table = real_table(result);
  CAPTURE(table);
  CHECK(table.find("+50.0%   4.0%") != std::string::npos);
  CHECK(
      table.find("drift of the machine since its calibration: +75.0% (median; +50.0% to +100.0%), "
                 "taken out by the reference; 4.5% left (median)") != std::string::npos);
  CHECK(table.find("no verdict: machine too noisy: drift 4.5% above 3.0%") != std::string::npos);
  CHECK(real_json(result).find("\"drift_left\": 0.04") != std::string::npos);
  CHECK(real_json(result).find("\"no_verdict\": [\n    \"machine too noisy") != std::string::npos);
  for (RealRow& row : result.rows)
    row.drift.reset();
  result.score = score_real(result.rows);
  result.without_drift = "the calibration has no reference";
  CHECK(real_table(result).find("drift of the machine since its calibration: not taken out: the "
                                "calibration has no reference") != std::string::npos);
}

TEST_CASE("the reference of a calibration is in the device file of its cluster") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "stepcast-real-drift-test";
  std::filesystem::create_directories(folder);
  std::ofstream{folder / "cluster.yaml"} << "name: a\ndevice: device.yaml\n";
  std::ofstream{folder / "device.yaml"} << "name: d\n";
  CHECK_FALSE(load_reference((folder / "cluster.yaml").string()));
  std::ofstream{folder / "device.yaml"}
      << "name: d\nreference: {product: 250 us, copy: 50 us, whole: 300 us}\n";
  const std::optional<ReferenceTimes> found = load_reference((folder / "cluster.yaml").string());
  std::filesystem::remove_all(folder);
  REQUIRE(found);
  CHECK_THAT(found->product, WithinRel(250e-6, 1e-9));
  CHECK_THAT(found->copy, WithinRel(50e-6, 1e-9));
  CHECK_THAT(found->whole, WithinRel(300e-6, 1e-9));
}

}  // namespace
