// The engine on whole scenarios, and message by message.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <string>

#include "sim/engine/simulate.hpp"
#include "sim/scenario/scenario.hpp"
#include "tests/support/source_dir.hpp"
#include "tests/unit/engine/hand_plan.hpp"

namespace {

const std::string root = sim::test::source_dir();
const std::string demo = root + "/scenarios/llama-3.1-405b-16384-h100.yaml";

// Reading every file, planning, folding and simulating: what a user waits for.
void demo_folded_with_files(benchmark::State& state) {
  for (auto _ : state) {
    const sim::Scenario scenario = sim::load_scenario(demo);
    const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
    benchmark::DoNotOptimize(sim::simulate(plan, scenario.cluster, scenario.options));
  }
}
BENCHMARK(demo_folded_with_files)->Unit(benchmark::kMillisecond);

void demo_files(benchmark::State& state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(sim::load_scenario(demo));
}
BENCHMARK(demo_files)->Unit(benchmark::kMillisecond);

void demo_plan(benchmark::State& state) {
  const sim::Scenario scenario = sim::load_scenario(demo);
  for (auto _ : state)
    benchmark::DoNotOptimize(sim::make_plan(scenario.model, scenario.layout));
}
BENCHMARK(demo_plan)->Unit(benchmark::kMillisecond);

// Many micro-batches: whole periods of the steady state skipped (argument 1), or simulated (0).
void steady_state(benchmark::State& state) {
  const sim::Scenario scenario = sim::load_scenario(root + "/scenarios/gpt3-175b-1024-a100.yaml");
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  sim::SimulationOptions options = scenario.options;
  options.jump = state.range(0) != 0;
  for (auto _ : state) {
    const sim::Simulation result = sim::simulate(plan, scenario.cluster, options);
    state.counters["events"] = static_cast<double>(result.stats.events);
    state.counters["skipped"] = static_cast<double>(result.stats.jumped_events);
  }
}
BENCHMARK(steady_state)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// All ranks, every operator.
void demo_unfolded(benchmark::State& state) {
  const sim::Scenario scenario = sim::load_scenario(demo);
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  sim::SimulationOptions options = scenario.options;
  options.fold = false;
  for (auto _ : state) {
    const sim::Simulation result = sim::simulate(plan, scenario.cluster, options);
    state.counters["activities"] = static_cast<double>(result.stats.activities);
    state.counters["events"] = static_cast<double>(result.stats.events);
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_gib"] = static_cast<double>(usage.ru_maxrss) / (1 << 20);
}
BENCHMARK(demo_unfolded)->Unit(benchmark::kSecond)->Iterations(1);

// The demo's layout with fewer replicas, unfolded: how time grows with ranks.
void unfolded_by_replicas(benchmark::State& state) {
  const sim::Scenario scenario = sim::load_scenario(demo);
  sim::Layout layout = scenario.layout;
  const auto replicas = static_cast<int>(state.range(0));
  layout.global_batch = layout.global_batch / layout.data_parallel * replicas;
  layout.data_parallel = replicas;
  const sim::Plan plan = sim::make_plan(scenario.model, layout);
  sim::SimulationOptions options = scenario.options;
  options.fold = false;
  for (auto _ : state)
    benchmark::DoNotOptimize(sim::simulate(plan, scenario.cluster, options));
  state.SetComplexityN(layout.world_size());
}
BENCHMARK(unfolded_by_replicas)
    ->RangeMultiplier(2)
    ->Range(4, 32)
    ->Unit(benchmark::kMillisecond)
    ->Complexity(benchmark::oNLogN);

// A ring all-reduce as its 2 (p - 1) p messages.
void stepwise_ring(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0));
  const sim::Cluster cluster = sim::Cluster::load(root + "/tests/bench/one_gpu_nodes.yaml", ranks);
  sim::HandProgram program;
  program.collective(sim::CollectiveKind::all_reduce, sim::Bytes{1LL << 30}, sim::GroupRole::data);
  const sim::Plan plan = sim::hand_plan({program.program}, 1, ranks);
  sim::SimulationOptions options;
  options.collectives = sim::CollectiveModel::stepwise;
  options.data_choice = {.algorithm = sim::Algorithm::ring, .protocol = sim::Protocol::simple};
  for (auto _ : state) {
    const sim::Simulation result = sim::simulate(plan, cluster, options);
    state.counters["messages"] = static_cast<double>(result.stats.activities - 1);
  }
}
BENCHMARK(stepwise_ring)->Arg(64)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
