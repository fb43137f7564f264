// A search beside its parts: what it costs to list, to bound and to simulate a layout. Compare the
// rates (layouts per second) within one run.
#include <benchmark/benchmark.h>
#include <tbb/task_arena.h>

#include <memory>
#include <string>

#include "sim/search/search.hpp"
#include "tests/support/source_dir.hpp"

namespace {

const std::string root = sim::test::source_dir();
const std::string turing_nlg = root + "/scenarios/search/turing-nlg-530b-1024-a100.yaml";
const std::string llama = root + "/scenarios/search/llama-405b-16384-h100.yaml";
const std::string deepseek = root + "/tests/bench/deepseek-v3-2048-h100.yaml";

sim::SearchSpecification specification_of(const std::string& path) {
  return sim::load_search(sim::ScenarioSources{path});
}

void count_layouts(benchmark::State& state, std::size_t layouts) {
  state.counters["layouts"] = static_cast<double>(layouts);
  state.counters["layouts_per_s"] = benchmark::Counter(
      static_cast<double>(layouts), benchmark::Counter::kIsIterationInvariantRate);
}

// From the scenario to the best layouts of the whole space; the argument: threads.
void search_of(benchmark::State& state, const std::string& path) {
  tbb::task_arena arena{static_cast<int>(state.range(0))};
  sim::SearchCounts counts;
  for (auto _ : state) {
    arena.execute([&] {
      sim::Search search{specification_of(path)};
      sim::run_search(search);
      counts = search.counts();
    });
  }
  count_layouts(state, counts.legal);
  state.counters["simulated"] = static_cast<double>(counts.simulated);
}
void search_turing_nlg(benchmark::State& state) {
  search_of(state, turing_nlg);
}
void search_llama_405b(benchmark::State& state) {
  search_of(state, llama);
}
void search_deepseek(benchmark::State& state) {
  search_of(state, deepseek);
}
BENCHMARK(search_turing_nlg)
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kSecond)
    ->Iterations(1)
    ->UseRealTime();
BENCHMARK(search_llama_405b)
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kSecond)
    ->Iterations(1)
    ->UseRealTime();
BENCHMARK(search_deepseek)->Arg(1)->Unit(benchmark::kSecond)->Iterations(1)->UseRealTime();

void search_list(benchmark::State& state) {
  const sim::SearchSpecification asked = specification_of(turing_nlg);
  std::size_t layouts = 0;
  for (auto _ : state)
    layouts = sim::list_candidates(asked).all.size();
  count_layouts(state, layouts);
}
BENCHMARK(search_list)->Unit(benchmark::kMillisecond);

// The cheap bounds of all layouts, with all that they are read off.
void search_coarse_bounds(benchmark::State& state) {
  const sim::SearchSpecification asked = specification_of(turing_nlg);
  const sim::Candidates listed = sim::list_candidates(asked);
  std::vector<sim::Bound> bounds(listed.all.size());
  for (auto _ : state) {
    const sim::Bounds from{asked, listed};
    for (std::uint32_t i = 0; i < listed.pipelines.size(); ++i)
      from.coarse(i, bounds);
  }
  count_layouts(state, listed.all.size());
}
BENCHMARK(search_coarse_bounds)->Unit(benchmark::kMillisecond);

// Every 40,009th layout: the close bound, and the full simulation beside it.
constexpr std::size_t stride = 40009;

void search_fine_bounds(benchmark::State& state) {
  const sim::SearchSpecification asked = specification_of(turing_nlg);
  const sim::Candidates listed = sim::list_candidates(asked);
  std::size_t bounded = 0;
  for (auto _ : state) {
    const sim::Bounds from{asked, listed};
    bounded = 0;
    for (std::size_t i = 0; i < listed.all.size(); i += stride, ++bounded)
      benchmark::DoNotOptimize(from.fine(static_cast<std::uint32_t>(i)));
  }
  count_layouts(state, bounded);
}
BENCHMARK(search_fine_bounds)->Unit(benchmark::kMillisecond);

void search_evaluate(benchmark::State& state) {
  const sim::SearchSpecification asked = specification_of(turing_nlg);
  const sim::Candidates listed = sim::list_candidates(asked);
  std::size_t evaluated = 0;
  for (auto _ : state) {
    evaluated = 0;
    for (std::size_t i = 0; i < listed.all.size(); i += stride, ++evaluated)
      benchmark::DoNotOptimize(
          sim::evaluate(asked, listed, static_cast<std::uint32_t>(i)).step_time);
  }
  count_layouts(state, evaluated);
}
BENCHMARK(search_evaluate)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
