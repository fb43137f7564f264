// Laws that every search keeps, on random small scenarios with random spaces. A failure prints the
// seed and the scenario.
#include <fmt/format.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>

#include "sim/plan/sharding/eight_bit.hpp"
#include "sim/search/result.hpp"
#include "tests/catch.hpp"
#include "tests/property/chosen.hpp"
#include "tests/property/random_scenario.hpp"
#include "tests/property/search_checks.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;
using namespace sim::test;

constexpr std::size_t most_layouts = 250;

// One to all of the options, in their order.
template <class T, std::size_t N>
std::vector<T> some(Dice& dice, const std::array<T, N>& options) {
  std::vector<T> chosen;
  for (const T& option : options)
    if (dice.coin()) chosen.push_back(option);
  if (chosen.empty()) chosen.push_back(dice.pick(options));
  return chosen;
}

// Products in 8 bits, and parameters, where the device and the layout can have them.
void draw_eight_bits(Dice& dice, Scenario& scenario) {
  Layout layout = scenario.layout;
  layout.compute_dtype = DType::fp8;
  layout.eight_bit_parameters =
      dice.coin() && can_have_eight_bit_parameters(scenario.model.execution, layout.zero_stage,
                                                   layout.shard_ranks());
  if (dice.coin() || !scenario.cluster.device().gemm_model(DType::fp8)) return;
  if (layout_problems(layout, scenario.model).empty()) scenario.layout = layout;
}

// Layers and linears in 16 bits beside products in 8.
void draw_formats(Dice& dice, Scenario& scenario) {
  Layout layout = scenario.layout;
  if (layout.compute_dtype != DType::fp8) return;
  if (dice.coin()) layout.first_bf16_layers = dice.below(5);
  if (dice.coin()) layout.last_bf16_layers = dice.below(3);
  if (dice.coin()) layout.bf16_modules = {LinearModule::qkv, LinearModule::mlp_down};
  if (layout_problems(layout, scenario.model).empty()) scenario.layout = layout;
}

// How tokens come to their experts.
void draw_exchange(Dice& dice, Scenario& scenario) {
  if (!scenario.model.has_experts()) return;
  Layout layout = scenario.layout;
  layout.token_dispatcher =
      dice.pick(std::array{TokenDispatcher::alltoall, TokenDispatcher::allgather,
                           TokenDispatcher::deepep, TokenDispatcher::hybridep});
  if (dice.below(3) == 0) layout.expert_choice = ExpertChoice::consecutive;
  if (dice.below(3) == 0) layout.expert_capacity = dice.pick(std::array{1.0, 1.5});
  if (layout_problems(layout, scenario.model).empty()) scenario.layout = layout;
}

// What lies on the host: as the scenario says, a dimension, or both.
void draw_offload(Dice& dice, SearchSpecification& asked) {
  const Cluster& cluster = asked.workload.cluster;
  if (cluster.host_copy() == Bandwidth{} || cluster.host().bandwidth == Bandwidth{}) return;
  if (dice.below(3) == 0) return;
  constexpr std::array all{OffloadParts::none,
                           OffloadParts::optimizer,
                           OffloadParts::activations,
                           OffloadParts::optimizer_and_activations,
                           OffloadParts::optimizer_and_parameters,
                           OffloadParts::all};
  Layout& layout = asked.workload.layout;
  offload(dice.pick(all), layout);
  if (layout.offloads()) {
    if (dice.coin() && !layout.offloads_parameters()) layout.offload_fraction = 0.3;
    layout.offload_overlap = dice.coin();
    layout.offload_delay = dice.below(4) == 0 && layout.offload_fraction == 1;
    if (cluster.host().disk_read > Bandwidth{} && dice.below(4) == 0)
      layout.offload_optimizer = OffloadTarget::nvme;
  }
  if (layout.offloads_activations()) {
    layout.offload_layers = dice.below(3);
    if (dice.below(3) == 0)
      layout.offload_modules = {OffloadModule::qkv_linear, OffloadModule::attn_proj};
  }
  if (dice.coin()) asked.space.offload = some(dice, all);
}

SearchSpecification random_search(Dice& dice, Scenario scenario) {
  SearchSpecification asked{std::move(scenario)};
  asked.workload.path = "random.yaml";
  const int job = asked.workload.layout.world_size();
  SearchSpace& space = asked.space;
  space.gpus = {job};
  if (job % 2 == 0 && dice.coin()) space.gpus.push_back(job / 2);
  space.zero_stage = some(dice, std::array{0, 1, 2, 3});
  if (dice.coin()) space.shard_group = {0};
  space.micro_batch = some(dice, std::array{1, 2});
  space.virtual_stages = some(dice, std::array{1, 2});
  space.recompute = some(dice, std::array{Recompute::none, Recompute::full});
  space.recompute_every = some(dice, std::array{1, 2});
  space.schedule =
      some(dice, std::array{Schedule::one_f_one_b, Schedule::gpipe, Schedule::zb_h1,
                            Schedule::interleaved, Schedule::zb_v, Schedule::v_half,
                            Schedule::v_min, Schedule::interleaved_zb, Schedule::dual_pipe_v});
  if (dice.coin()) space.sequence_parallel = {dice.coin() ? 1 : 0};
  asked.top = 1 + dice.below(4);
  asked.wave = 1 + dice.below(20);
  asked.front_slowdown = dice.coin() ? 0.02 : 0.5;
  draw_eight_bits(dice, asked.workload);
  draw_formats(dice, asked.workload);
  draw_exchange(dice, asked.workload);
  draw_offload(dice, asked);
  return asked;
}

// A margin that some layouts leave and some do not.
void draw_memory_margin(Dice& dice, SearchSpecification& asked) {
  if (dice.coin()) return;
  const Candidates listed = list_candidates(asked);
  if (listed.all.empty() || listed.all.size() > most_layouts) return;
  const auto index = static_cast<std::uint32_t>(dice.below(static_cast<int>(listed.all.size())));
  const Bytes left = asked.workload.cluster.device().memory - evaluate(asked, listed, index).memory;
  if (left > Bytes{}) asked.memory_margin = {.bytes = left};
}

// A pure function of the seed: a specification belongs to one search.
SearchSpecification specification_of(std::uint64_t seed, std::string& text) {
  ScenarioLimits limits;
  limits.most_ranks = 16;
  RandomScenario random = random_scenario(seed, limits);
  text = random.yaml;
  Dice dice{seed + 1};
  SearchSpecification asked = random_search(dice, std::move(random.scenario));
  draw_memory_margin(dice, asked);
  return asked;
}

// The seeds whose spaces hold some layouts, and not too many to look at all of them. `check` takes
// what makes the specification.
template <class Law>
void for_random_searches(std::uint64_t law, Law check) {
  const std::uint64_t scenarios = chosen("STEPCAST_SEARCHES", 120);  // of a law
  std::uint64_t checked = 0;
  for (std::uint64_t i = 0; checked < scenarios; ++i) {
    REQUIRE(i < 100 * scenarios);
    const std::uint64_t seed = law * 1'000'000 + i;
    std::string text;
    const std::size_t layouts = list_candidates(specification_of(seed, text)).all.size();
    if (layouts < 4 || layouts > most_layouts) continue;
    INFO("seed " << seed << "\n" << text);
    check([&] { return specification_of(seed, text); });
    ++checked;
  }
}

TEST_CASE("pruned and exhaustive searches of random spaces agree", "[laws]") {
  std::uint64_t spared = 0;
  for_random_searches(21, [&](const auto& asked) {
    const Outcome all = outcome_of(asked(), false);
    const Outcome pruned = outcome_of(asked(), true);
    REQUIRE(all.counts.simulated + all.counts.too_large + all.counts.too_large_for_host ==
            all.counts.legal);
    REQUIRE(pruned == all);
    spared += all.counts.simulated - pruned.counts.simulated;
  });
  CHECK(spared > 0);
}

TEST_CASE("no layout of a random space takes less than its bounds, nor less than the best",
          "[laws]") {
  for_random_searches(22, [&](const auto& make) {
    const Outcome found = outcome_of(make(), true);
    check_bounds(make(), [&](const Evaluation& exact) {
      const std::vector<Evaluation>& shown = found.within.empty() ? found.best : found.within;
      REQUIRE(!shown.empty());
      REQUIRE(shown.front().step_time <= exact.step_time);
    });
  });
}

// Experts as large as the rest, whose GEMMs run abreast on Hopper, beside gradients that take about
// as long: these GEMMs give way to them, and lose no half of that time (sim/engine/RULES.md).
TEST_CASE("nor a mixture whose experts run beside the reduction of gradients", "[laws]") {
  int checked = 0;
  for (std::uint64_t seed = 25'000'000; seed < 25'000'012; ++seed) {
    Dice dice{seed};
    const std::string text = fmt::format(
        "model: {{name: mixture, source: none, transformer: {{layers: 4, hidden: 2048, heads: 16, "
        "feed_forward: 4096, vocabulary: 1024, max_sequence: 8192, norm: rms, activation: swiglu, "
        "positions: rotary, biases: none, experts: {{count: 8, per_token: 2, feed_forward: "
        "{}}}}}}}\n"
        "cluster: {{path: {}/topologies/dgx-h100.yaml, nodes: 2, change: {{node: {{nics: "
        "{{bandwidth: {} Gbps}}}}}}}}\n"
        "layout: {{sequence_length: 2048, global_batch: {}}}\n"
        "search: {{tensor_parallel: [1, 2], pipeline_parallel: 1, zero_stage: [0, 1], micro_batch: "
        "[2, 4, 8], recompute: none, schedule: 1f1b, placement: tp-cp-dp-pp}}\n",
        dice.pick(std::array{2048, 4096}), source_dir(), dice.pick(std::array{100, 200, 400}),
        dice.pick(std::array{32, 64, 128}));
    INFO("seed " << seed << "\n" << text);
    check_bounds(load_search(ScenarioSources::of_text(text, source_dir() + "/mixture.yaml")),
                 [&](const Evaluation&) { ++checked; });
  }
  CHECK(checked > 100);
}

// A billion parameters on eight GPUs, of a node whose host has room for some of the layouts.
TEST_CASE("nor a layout whose optimizer lies on a host with too little memory", "[laws]") {
  const std::string text = fmt::format(
      "model: {{name: dense, source: none, transformer: {{layers: 8, hidden: 2048, heads: 16, "
      "feed_forward: 8192, vocabulary: 32000, max_sequence: 2048, norm: rms, activation: swiglu, "
      "positions: rotary, biases: none}}}}\n"
      "cluster: {{path: {}/topologies/dgx-h100.yaml, nodes: 1, change: {{host: {{memory: 20 "
      "GB}}}}}}\n"
      "layout: {{sequence_length: 2048, global_batch: 16}}\n"
      "search: {{offload: [none, optimizer, optimizer+activations, optimizer+parameters], "
      "micro_batch: 1, schedule: 1f1b, placement: tp-cp-dp-pp, memory_margin: 0}}\n",
      source_dir());
  const auto asked = [&] {
    return load_search(ScenarioSources::of_text(text, source_dir() + "/dense.yaml"));
  };
  const Outcome pruned = outcome_of(asked(), true), all = outcome_of(asked(), false);
  REQUIRE(pruned == all);
  CHECK(pruned.counts.too_large_for_host > 0);
  CHECK(pruned.counts.too_large_for_host <= all.counts.too_large_for_host);
  int on_host = 0;
  const SearchSpecification specification = asked();
  const Candidates listed = list_candidates(specification);
  check_bounds(specification, [&](const Evaluation& exact) {
    if (layout_of(specification, listed, exact.index).uses_host()) ++on_host;
  });
  CHECK(on_host > 0);
}

TEST_CASE("one thread and two find the same in a random space, with the same counts", "[laws]") {
  for_random_searches(23, [&](const auto& asked) {
    const auto json_with = [&](int threads) {
      tbb::task_arena arena{threads};
      return arena.execute([&] {
        Search search{asked()};
        REQUIRE(run_search(search));
        return search_json(make_result(search, true));
      });
    };
    REQUIRE(json_with(1) == json_with(2));
  });
}

}  // namespace
