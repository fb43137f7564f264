// Workers and parameter servers of a whole job.
#include <benchmark/benchmark.h>

#include <string>

#include "sim/forecast/servers.hpp"
#include "sim/scenario/scenario.hpp"
#include "sim/servers/run_servers.hpp"
#include "tests/support/source_dir.hpp"

namespace {

// Mode, and the rate of the network: at 10 Gb/s all messages wait for each other.
void servers(benchmark::State& state, const char* mode, const char* nics) {
  const sim::Scenario scenario = sim::load_scenario(
      sim::test::source_dir() + std::string{"/scenarios/gpt2-64-h100-ethernet.yaml"},
      {std::string{"layout.servers.mode="} + mode,
       std::string{"cluster.change.node.nics.bandwidth="} + nics});
  const sim::Plan plan = sim::make_plan(scenario.model, scenario.layout);
  const sim::Timeline step =
      sim::simulate(plan, scenario.cluster, sim::options_of_worker(scenario.options)).timeline;
  const sim::ServerSystem system =
      sim::server_system(plan, scenario.cluster, scenario.options, step);
  std::int64_t steps = 0;
  for (auto _ : state)
    steps = sim::run_servers(system).worker_steps;
  state.counters["worker_steps"] = static_cast<double>(steps);
}
BENCHMARK_CAPTURE(servers, synchronous, "synchronous", "400 Gbps")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(servers, asynchronous, "asynchronous", "400 Gbps")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(servers, asynchronous_slow, "asynchronous", "10 Gbps")
    ->Unit(benchmark::kMillisecond);

}  // namespace
