// Bytes that ranks send, against the sizes of sim/plan/rules/compression.md.
#include "sim/convergence/traffic.hpp"

#include "sim/scenario/scenario.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace sim {
namespace {

Plan plan_with(std::vector<std::string> overrides) {
  for (const char* key : {"layout.tensor_parallel=1", "layout.sequence_parallel=false",
                          "layout.data_parallel=4", "layout.gradient_dtype=fp32"})
    overrides.emplace_back(key);
  const Scenario scenario =
      load_scenario(test::source_dir() + "/scenarios/real/llama-byte-tp2-dp2.yaml", overrides);
  return make_plan(scenario.model, scenario.layout);
}

}  // namespace

TEST_CASE("an all-reduce of fp32 gradients sends 2 (n - 1) / n of their bytes") {
  const Plan plan = plan_with({});
  CHECK(synchronisation_bytes(plan) == Bytes{plan.parameters * 4 * 2 * 3 / 4});
}

TEST_CASE("ranks that are alone send nothing") {
  const Scenario alone =
      load_scenario(test::source_dir() + "/scenarios/real/llama-byte-tp2-dp2.yaml",
                    {"layout.tensor_parallel=4", "layout.data_parallel=1"});
  CHECK(synchronisation_bytes(make_plan(alone.model, alone.layout)) == Bytes{});
}

TEST_CASE("top-k sends values and places of its share to three others, random-k values alone") {
  const Plan top =
      plan_with({"layout.compression.gradients=top_k", "layout.compression.density=0.01"});
  const double expected = static_cast<double>(top.parameters) * 0.01 * 8 * 3;
  CHECK_THAT(static_cast<double>(synchronisation_bytes(top).count()), WithinRel(expected, 0.01));
  const Plan random =
      plan_with({"layout.compression.gradients=random_k", "layout.compression.density=0.01"});
  CHECK_THAT(static_cast<double>(synchronisation_bytes(random).count()),
             WithinRel(static_cast<double>(random.parameters) * 0.01 * 4 * 2 * 3 / 4, 0.01));
}

TEST_CASE("ranks that train apart send their parameters once in a round") {
  const Plan plan = plan_with({"layout.local_steps.every=10"});
  CHECK_THAT(static_cast<double>(synchronisation_bytes(plan).count()),
             WithinRel(static_cast<double>(plan.parameters) * 4 * 2 * 3 / 4 / 10, 1e-4));
}

TEST_CASE("ZeRO-3 gathers its parameters twice and reduces gradients once") {
  // 16 sequences over 4 ranks are one micro-batch of 4: two all-gathers, one reduce-scatter.
  const Plan plan = plan_with({"layout.zero_stage=3"});
  CHECK_THAT(static_cast<double>(synchronisation_bytes(plan).count()),
             WithinRel(static_cast<double>(plan.parameters) * 4 * 3 * 3 / 4, 0.02));
}

}  // namespace sim
