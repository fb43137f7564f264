// The same laws with keys of the layout that the random scenarios do not have, and with splits of
// the layers that are balanced by cost. A failure prints the seed and the scenario.
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "tests/property/random_scenario.hpp"
#include "tests/property/search_checks.hpp"
#include "tests/support/source_dir.hpp"

namespace {

using namespace sim;
using namespace sim::test;

constexpr int scenarios_of_a_key = 2;

struct SearchText {
  std::string layout, search;
  std::string experts{}, framework{};
};

// A model of few layers on two nodes, on which a search has some hundred layouts.
std::string text_of(Dice& dice, const SearchText& of) {
  const int layers = dice.pick(std::array{4, 6, 7});
  return fmt::format(
      "model: {{name: small, source: none, transformer: {{layers: {}, hidden: {}, heads: 16, "
      "feed_forward: 4096, vocabulary: {}, max_sequence: 8192, norm: rms, activation: swiglu, "
      "positions: rotary, biases: none{}}}}}\n"
      "cluster: {{path: {}/topologies/{}.yaml, nodes: 2, gpus: {}, change: {{node: {{nics: "
      "{{bandwidth: {} Gbps}}}}}}}}\n"
      "{}layout: {{sequence_length: 2048, global_batch: {}{}}}\n"
      "search: {{placement: tp-cp-dp-pp, memory_margin: {}{}}}\n",
      layers, dice.pick(std::array{1024, 2048}), dice.pick(std::array{1024, 64'000}), of.experts,
      source_dir(), dice.pick(std::array{"dgx-h100", "dgx-a100-80"}), dice.pick(std::array{8, 16}),
      dice.pick(std::array{25, 200}), of.framework, dice.pick(std::array{16, 32}), of.layout,
      dice.pick(std::array{0.0, 0.05}), of.search);
}

// Pruned and exhaustive searches agree, and no layout takes less than its bounds; returns how many
// layouts were looked at.
std::size_t check_laws(const std::string& text) {
  INFO(text);
  const auto asked = [&] {
    return load_search(ScenarioSources::of_text(text, source_dir() + "/small.yaml"));
  };
  REQUIRE(outcome_of(asked(), true) == outcome_of(asked(), false));
  check_bounds(asked(), [](const Evaluation&) {});
  return list_candidates(asked()).all.size();
}

template <class Make>
void check_key(std::uint64_t law, Make make) {
  std::size_t layouts = 0;
  for (int i = 0; i < scenarios_of_a_key; ++i) {
    Dice dice{law * 1000 + static_cast<std::uint64_t>(i)};
    layouts += check_laws(text_of(dice, make(dice)));
  }
  CHECK(layouts > 20 * scenarios_of_a_key);
}

const char* const few = ", micro_batch: [1, 2], recompute: none, schedule: 1f1b";

TEST_CASE("a search knows compressed gradients and parameters", "[laws]") {
  check_key(1, [](Dice& dice) {
    const std::string what = dice.pick(
        std::array{"gradients: int8", "gradients: int4", "gradients: top_k, density: 0.05",
                   "gradients: random_k", "gradients: power_sgd, rank: 4", "gradients: one_bit",
                   "quantized_weights: true", "secondary_shard: true, node_ranks: 2"});
    return SearchText{.layout = fmt::format(", compression: {{{}}}, gradient_dtype: fp32, "
                                            "reduce_dtype: fp32",
                                            what),
                      .search = few};
  });
}

TEST_CASE("a search knows adapters of frozen weights", "[laws]") {
  check_key(2, [](Dice& dice) {
    const std::string base = dice.pick(std::array{"", ", base: nf4", ", base: int8"});
    return SearchText{
        .layout = fmt::format(", lora: {{rank: 16{}}}", base),
        .search =
            ", micro_batch: [1, 2], recompute: [none, full], schedule: [1f1b, interleaved], "
            "zero_stage: [0, 1, 3], shard_group: 0"};
  });
}

TEST_CASE("a search knows packed lengths of sequences", "[laws]") {
  check_key(3, [](Dice& dice) {
    const std::string method =
        dice.pick(std::array{"first_fit_decreasing", "best_fit_decreasing", "concatenated"});
    return SearchText{
        .layout =
            fmt::format(", packing: {{lengths: lognormal, mean: {}, sigma: {}, method: {}}}",
                        dice.pick(std::array{100, 800}), dice.pick(std::array{0.4, 1.1}), method),
        .search =
            ", micro_batch: [1, 2], recompute: [none, full], schedule: [1f1b, gpipe], "
            "zero_stage: [0, 1, 3], shard_group: 0"};
  });
}

TEST_CASE("a search knows merged passes of mixtures", "[laws]") {
  check_key(4, [](Dice& dice) {
    const std::string delay = dice.coin() ? ", delay_wgrad: true" : "";
    return SearchText{
        .layout = fmt::format(", overlap: {{expert_exchange: true, pipeline: true{}}}", delay),
        .search =
            ", micro_batch: [1, 2], recompute: none, virtual_stages: [1, 2], schedule: "
            "[1f1b, interleaved], expert_parallel: [2, 4]",
        .experts = ", experts: {count: 8, per_token: 2, feed_forward: 1024}"};
  });
}

TEST_CASE("a search knows groups that train apart", "[laws]") {
  check_key(6, [](Dice& dice) {
    return SearchText{
        .layout =
            fmt::format(", local_steps: {{every: 8, ranks: {}, fragments: {}, overlap: {}}}",
                        dice.pick(std::array{1, 2}), dice.pick(std::array{1, 2}), dice.below(2)),
        .search =
            ", micro_batch: [1, 2], recompute: none, schedule: 1f1b, zero_stage: [0, 1, 3], "
            "shard_group: 0"};
  });
}

TEST_CASE("a search knows parameter servers", "[laws]") {
  check_key(7, [](Dice& dice) {
    const std::string mode =
        dice.pick(std::array{"synchronous", "asynchronous", "bounded, staleness: 2"});
    return SearchText{.layout = fmt::format(", servers: {{mode: {}}}", mode),
                      .search =
                          ", micro_batch: [1, 2], recompute: [none, full], zero_stage: [0, "
                          "1], shard_group: [0, 2, 4]"};
  });
}

TEST_CASE("a search knows splits that are not even", "[laws]") {
  check_key(5, [](Dice& dice) {
    const std::string framework = dice.pick(
        std::array{"", "framework: {name: megatron}\n", "framework: {name: torchtitan}\n"});
    return SearchText{
        .layout = "",
        .search =
            ", uneven: true, micro_batch: [1, 2], recompute: [none, full], "
            "zero_stage: [0, 3], shard_group: 0, pipeline_parallel: [2, 4], schedule: [1f1b, "
            "interleaved]",
        .framework = framework};
  });
}

}  // namespace
