// The suites for GPUs, as far as a CPU can tell: everything in them can be run, fits into the
// device, and has a forecast.
#include <algorithm>
#include <map>

#include "real/cuda/cuda_backend.hpp"
#include "real/engine/bound_program.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/memory/arena.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/scores/real/real_suite.hpp"
#include "tests/catch.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;

// The memory of an H200, as its driver tells it.
constexpr std::int64_t h200_bytes = 143'771LL << 20;

struct Checked {
  std::vector<std::string> problems;
  Bytes arenas{};  // of all ranks
  Duration step{};
  std::int64_t tokens = 0;
};

Checked check_scenario(const RealSuite& suite, const SuiteScenario& one) {
  Checked result;
  const Scenario scenario = load_scenario(one.base, overrides_of(suite, one));
  const Plan plan = make_plan(scenario.model, scenario.layout);
  if (plan.world_size() != suite.ranks) result.problems.emplace_back("another number of ranks");
  for (const std::string& problem : real::engine_problems(plan, scenario.model))
    result.problems.push_back(problem);
  for (const std::string& problem : real::cuda_problems(plan, scenario.model))
    result.problems.push_back(problem);
  for (int rank = 0; rank < plan.world_size(); ++rank)
    result.arenas += arena_layout(plan.program(RankId{static_cast<std::uint32_t>(rank)})).size;
  result.tokens = scenario.layout.global_batch * scenario.layout.sequence_length;
  result.step = simulate(plan, scenario.cluster, scenario.options).timeline.end.time_since_epoch();
  return result;
}

}  // namespace

// Nominal figures of a DGX H100. Contexts, workspaces and communicators of a rank: two GiB.
TEST_CASE(
    "every scenario of the suite for 8 GPUs runs on the CUDA backend, fits, and has a forecast") {
  const RealSuite suite = load_real_suite(sim::test::source_dir() + "/validation/real/gpu-8.yaml");
  CHECK(suite.ranks == 8);
  CHECK(suite.bounds.scored == static_cast<int>(suite.scenarios.size()));
  for (const SuiteScenario& one : suite.scenarios) {
    CAPTURE(one.name);
    const Checked result = check_scenario(suite, one);
    for (const std::string& problem : result.problems)
      CHECK(problem == "");
    CHECK(result.arenas.count() / suite.ranks <= 38LL << 30);  // of a GPU with 40 GiB
    CHECK(result.step > duration_from_seconds(0.005));
    CHECK(result.step < duration_from_seconds(60));
  }
}

TEST_CASE("every scenario of the GPU suites runs on the CUDA backend, fits, and has a forecast") {
  const std::string name = GENERATE("gpu-1", "gpu-features", "gpu-virtual-4", "gpu-virtual-8");
  const RealSuite suite =
      load_real_suite(sim::test::source_dir() + "/validation/real/" + name + ".yaml");
  CHECK(suite.name == name);
  CHECK(suite.scenarios.size() >= (name == "gpu-features" ? 12 : 24));
  CHECK(suite.bounds.scored <= static_cast<int>(suite.scenarios.size()));
  // Contexts, workspaces and communicators of a rank: two GiB.
  const std::int64_t room = h200_bytes - suite.ranks * (2LL << 30);
  std::map<std::string, Duration> steps;
  for (const SuiteScenario& one : suite.scenarios) {
    CAPTURE(name, one.name);
    const Checked result = check_scenario(suite, one);
    for (const std::string& problem : result.problems)
      CHECK(problem == "");
    CHECK(result.arenas.count() <= room);
    // Between a hundredth of a second and a minute: models of 20 M to 1.5 B on one GPU.
    CHECK(result.step > duration_from_seconds(0.005));
    CHECK(result.step < duration_from_seconds(60));
    steps[one.name] = result.step;
  }
  if (name == "gpu-features") {
    CHECK(steps.at("124m-kept-logits") < steps.at("124m-plain"));
    CHECK(steps.at("llama-packed") < steps.at("llama-plain"));
    return;
  }
  // Nominal figures of machines, as far as the order of layouts is beyond doubt.
  if (name == "gpu-1") {
    CHECK(steps.at("124m-micro-16") < steps.at("350m-micro-8"));
    CHECK(steps.at("124m-micro-16") < steps.at("124m-micro-16-recompute"));
    CHECK(steps.at("1.5b-micro-8") < steps.at("1.5b-micro-8-recompute"));
  } else {
    // Loopback sockets: bytes are what a step is made of. Half of them, or none but activations.
    CHECK(steps.at("20m-dp-bf16") < steps.at("20m-dp"));
    CHECK(steps.at("124m-pp-1f1b") < steps.at("124m-dp"));
    CHECK(steps.at("124m-tp2-dp") < steps.at("124m-tp4-sp"));
    CHECK(steps.at("20m-dp") < steps.at("124m-dp"));
    CHECK(steps.at("124m-dp") < steps.at("350m-zero-1"));
  }
}
