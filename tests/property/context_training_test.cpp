// Ranks that share the tokens of each sequence train the model that one rank trains
// (equivalence_test.cpp says how the two are compared).
#include <fmt/format.h>

#include "tests/property/same_training.hpp"

namespace real::test {
namespace {

using sim::ContextExchange;
using sim::Recompute;

// The settings of the equivalence tests: one_rank_layout() fills in the rest.
sim::Layout context_layout(int ranks, ContextExchange exchange) {
  sim::Layout from;
  from.sequence_length = 12;
  from.global_batch = 8;
  sim::Layout layout = one_rank_layout(from);
  layout.micro_batch = 2;
  layout.context_parallel = ranks;
  layout.context_exchange = exchange;
  return layout;
}

constexpr std::array exchanges{ContextExchange::ring, ContextExchange::all_gather,
                               ContextExchange::all_to_all};

TEST_CASE("ranks of a sequence train the model that one rank trains", "[context]") {
  for (const ContextExchange exchange : exchanges) {
    const bool by_heads = exchange == ContextExchange::all_to_all;
    const auto add = [&](const char* name, const ModelTraits& model, int ranks, auto change) {
      sim::Layout layout = context_layout(ranks, exchange);
      change(layout);
      check_case({fmt::format("{}: {}", sim::word(exchange), name), model, layout});
    };
    const auto same = [](sim::Layout&) {};
    const ModelTraits llama{.llama = true, .grouped = true, .layers = 2};
    add("cp 2, learned positions", {.layers = 2}, 2, same);
    add("cp 2, grouped queries, rotary", llama, 2, same);
    if (!by_heads) add("cp 3", llama, 3, same);
    if (!by_heads) add("cp 6, a token in each chunk", {.layers = 2}, 6, same);
    if (by_heads)
      add("cp 4, a token in each chunk", {.layers = 2}, 4, [](auto& l) { l.sequence_length = 8; });
    add("cp 2 dp 2 ZeRO-3", llama, 2, [](auto& l) {
      l.data_parallel = 2;
      l.zero_stage = 3;
    });
    add("cp 2 dp 2 in groups of 2", llama, 2, [](auto& l) {
      l.data_parallel = 2;
      l.zero_stage = 1;
      l.shard_group = 2;
    });
    add("cp 2 tp 2 sp", {.llama = true, .grouped = !by_heads, .layers = 2}, 2, [](auto& l) {
      l.tensor_parallel = 2;
      l.sequence_parallel = true;
    });
    add("cp 2 pp 2, norms of queries and keys", {.llama = true, .qk_norm = true, .layers = 2}, 2,
        [](auto& l) { l.pipeline_parallel = 2; });
    add("cp 2 tp 2, dropout", {.layers = 2, .dropout = 0.2}, 2,
        [](auto& l) { l.tensor_parallel = 2; });
    add("cp 2 tp 2 sp, dropout", {.layers = 2, .dropout = 0.2}, 2, [](auto& l) {
      l.tensor_parallel = 2;
      l.sequence_parallel = true;
    });
    add("cp 2, full recomputation", llama, 2, [](auto& l) { l.recompute = Recompute::full; });
    add("cp 2, attention again", llama, 2, [](auto& l) {
      l.recompute = Recompute::selective;
      l.recompute_modules = {sim::RecomputeModule::core_attn};
    });
    add("cp 2, attention and MLP again, dropout", {.layers = 2, .dropout = 0.2}, 2, [](auto& l) {
      l.recompute = Recompute::selective;
      l.recompute_modules = {sim::RecomputeModule::core_attn, sim::RecomputeModule::mlp};
    });
    add("cp 2 with 5 and 3 micro-batches", llama, 2, [](auto& l) {
      l.data_parallel = 2;
      l.micro_batch = 1;
      l.replica_batches = {5, 3};
    });
    add("cp 2 pp 2, zero bubbles", llama, 2, [](auto& l) {
      l.pipeline_parallel = 2;
      l.schedule = sim::Schedule::zb_h1;
    });
  }
}

TEST_CASE("ranks of a sequence train the mixture of experts that one rank trains", "[context]") {
  const ModelTraits mixture{.llama = true, .layers = 2, .experts = 4};
  for (const ContextExchange exchange : exchanges)
    for (const auto routing : {sim::TokenRouting::automatic, sim::TokenRouting::softmax}) {
      sim::Layout layout = context_layout(2, exchange);
      layout.sequence_length = 8;
      check_case({"cp 2", mixture, layout}, routing);
      layout.expert_parallel = 2;
      check_case({"cp 2 ep 2", mixture, layout}, routing);
      layout.data_parallel = 2;
      layout.expert_parallel = 4;
      check_case({"cp 2 dp 2 ep 4", mixture, layout}, routing);
    }
}

}  // namespace
}  // namespace real::test
