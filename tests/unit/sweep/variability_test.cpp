// Steps that other jobs and slow nodes disturb.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/base/input_error.hpp"
#include "sim/sweep/step_variability.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

using namespace sim;

namespace {

ScenarioInput job(int nodes, const std::string& disturbance) {
  const std::string root = test::source_dir();
  return {root + "/job.yaml",
          "model: " + root + "/models/gpt2.yaml\ncluster: {path: " + root +
              "/topologies/dgx-h100.yaml, nodes: " + std::to_string(nodes) +
              "}\nlayout: {sequence_length: 1024, global_batch: " + std::to_string(32 * nodes) +
              ", micro_batch: 4}\nframework: {separate_update: false}\ndisturbance: " +
              disturbance + "\n"};
}

StepVariability steps_of(int nodes, const std::string& disturbance) {
  return step_variability(job(nodes, disturbance), {});
}

double ratio(Duration a, Duration b) {
  return to_seconds(a) / to_seconds(b);
}

std::string refusal(const std::string& disturbance) {
  try {
    static_cast<void>(steps_of(2, disturbance));
  } catch (const InputError& error) {
    return error.what();
  }
  return "was read";
}

}  // namespace

TEST_CASE("A machine of one's own disturbs no step", "[sweep]") {
  const StepVariability steps = steps_of(2, "{}");
  CHECK(ratio(steps.mean, steps.undisturbed.step_time) == Approx(1).epsilon(1e-9));
  CHECK(ratio(steps.p99, steps.undisturbed.step_time) == Approx(1).epsilon(1e-9));
}

TEST_CASE("A job on one node has no fabric to share", "[sweep]") {
  const StepVariability steps = steps_of(1, "{preset: shared}");
  CHECK(ratio(steps.p99, steps.undisturbed.step_time) == Approx(1).epsilon(1e-9));
}

TEST_CASE("Less of the fabric makes longer steps, and a wider band a longer tail", "[sweep]") {
  const StepVariability half =
      steps_of(4, "{fabric_share: 0.5, fabric_share_low: 0.5, fabric_share_high: 0.5}");
  const StepVariability tenth =
      steps_of(4, "{fabric_share: 0.1, fabric_share_low: 0.1, fabric_share_high: 0.1}");
  const StepVariability wide =
      steps_of(4, "{fabric_share: 0.5, fabric_share_low: 0.1, fabric_share_high: 1}");
  CHECK(half.p5 == half.p99);
  CHECK(half.p50 > half.undisturbed.step_time);
  CHECK(tenth.p50 > half.p50);
  CHECK(ratio(wide.p50, half.p50) == Approx(1).epsilon(0.02));
  CHECK(wide.p5 < wide.p50);
  CHECK(wide.p50 < wide.p95);
  CHECK(wide.p95 < wide.p99);
  CHECK(ratio(wide.p95, tenth.p50) == Approx(1).epsilon(0.05));
}

TEST_CASE("Jobs have a slow node as often as the share of them says", "[sweep]") {
  const StepVariability all = steps_of(4, "{slow_nodes: 1, slow_factor: 2}");
  const StepVariability some = steps_of(4, "{slow_nodes: 0.1, slow_factor: 2}");
  CHECK(all.slow_chance == 1);
  CHECK(some.slow_chance == Approx(1 - std::pow(0.9, 4)));
  CHECK(all.mean > all.undisturbed.step_time);
  const double expected = 1 + some.slow_chance * (ratio(all.mean, all.undisturbed.step_time) - 1);
  CHECK(ratio(some.mean, some.undisturbed.step_time) == Approx(expected).epsilon(0.02));
}

TEST_CASE("The same seed draws the same steps, another one others", "[sweep]") {
  const ScenarioInput input = job(4, "{preset: shared}");
  const StepVariability one = step_variability(input, {}), again = step_variability(input, {});
  CHECK(one.mean == again.mean);
  CHECK(step_variability(input, {"simulation.seed=2"}).mean != one.mean);
}

TEST_CASE("What is set of the NICs is shared from there", "[sweep]") {
  const ScenarioInput input = job(4, "{preset: shared}");
  const std::vector<std::string> half{"cluster.change.node.nics.bandwidth=200 Gbps"};
  const StepVariability usual = step_variability(input, {}), slower = step_variability(input, half);
  CHECK(slower.undisturbed.step_time > usual.undisturbed.step_time);
  CHECK(slower.p50 > usual.p50);
}

TEST_CASE("A disturbance that cannot be is refused", "[sweep]") {
  CHECK(refusal("{fabric_share: 0.5, fabric_share_low: 0.9}").find("do not ascend") !=
        std::string::npos);
  CHECK(refusal("{preset: mine}").find("allowed: dedicated") != std::string::npos);
  CHECK(refusal("{fabric_shares: 1}").find("did you mean 'fabric_share'") != std::string::npos);
  CHECK(refusal("{slow_factor: 0.5}").find("allowed: 1 to 100") != std::string::npos);
}

TEST_CASE("A shared machine is as it was measured, in between by a straight line", "[sweep]") {
  CHECK(preset_of(DisturbancePreset::shared, 64).fabric_share == Approx(32.9 / 400));
  CHECK(preset_of(DisturbancePreset::shared, 500).fabric_share == Approx(32.9 / 400));
  const Disturbance between = preset_of(DisturbancePreset::shared, 24);
  CHECK(between.fabric_share < 84.7 / 400);
  CHECK(between.fabric_share > 64.9 / 400);
  CHECK(between.fabric_share_high <= 1);
  CHECK(preset_of(DisturbancePreset::shared, 1).fabric_share == 1);
  CHECK(preset_of(DisturbancePreset::dedicated, 64).fabric_share_low == 1);
}

TEST_CASE("The distribution of steps has all forms", "[sweep]") {
  const StepVariability steps = steps_of(4, "{preset: shared, slow_nodes: 0.01}");
  const auto json = nlohmann::json::parse(variability_json(steps));
  CHECK(json["p50_s"] < json["p99_s"]);
  CHECK(variability_table(steps).find("99 % are shorter than") != std::string::npos);
  CHECK(variability_csv(steps).find("step,time_s,of_undisturbed") == 0);
  CHECK(variability_markdown(steps).find("| step | time |") != std::string::npos);
}
