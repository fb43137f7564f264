// Sequences that are packed into rows train the model that one rank trains on them alone
// (equivalence_test.cpp says how the two are compared).
#include "tests/property/same_training.hpp"

namespace real::test {
namespace {

constexpr std::int64_t packed = 6;

// Rows of two sequences.
void check_packed(const char* name, const ModelTraits& traits, void (*change)(sim::Layout&),
                  sim::TokenRouting routing = sim::TokenRouting::automatic) {
  CAPTURE(name);
  sim::Layout from;
  from.sequence_length = 2 * packed;
  from.global_batch = 8;
  sim::Layout layout = one_rank_layout(from);
  layout.micro_batch = 2;
  layout.packed_length = packed;
  change(layout);
  from.sequence_length = layout.packed_length;
  from.global_batch = layout.global_batch * (layout.sequence_length / layout.packed_length);
  const sim::Model model = equivalence_model(traits);
  const auto text = equivalence_text();
  const auto samples = open_samples(text->path(), model, layout.packed_length);
  check_same_training(model, layout, one_rank_layout(from), *samples, routing);
}

TEST_CASE("packed sequences train the model that they train alone", "[packed]") {
  const ModelTraits llama{.llama = true, .grouped = true, .layers = 2};
  const ModelTraits gpt{.layers = 2};
  for (const ModelTraits& model : {llama, gpt}) {
    check_packed("one rank", model, [](sim::Layout&) {});
    check_packed("dp 2 ZeRO-3", model, [](sim::Layout& l) {
      l.data_parallel = 2;
      l.zero_stage = 3;
    });
    check_packed("tp 2 sp", model, [](sim::Layout& l) {
      l.tensor_parallel = 2;
      l.sequence_parallel = true;
    });
    check_packed("pp 2", model, [](sim::Layout& l) { l.pipeline_parallel = 2; });
    check_packed("full recomputation", model,
                 [](sim::Layout& l) { l.recompute = sim::Recompute::full; });
  }
  check_packed("tp 2, dropout", {.layers = 2, .dropout = 0.2}, [](sim::Layout& l) {
    l.tensor_parallel = 2;
    l.sequence_parallel = true;
  });
}

TEST_CASE("windows and positions of a part of a head count in a packed sequence", "[packed]") {
  // The second layer sees all keys; four elements of the six of a head are turned.
  const ModelTraits windows{
      .llama = true, .grouped = true, .layers = 2, .window = 3, .rotary_share = 0.7};
  check_packed("one rank", windows, [](sim::Layout&) {});
  check_packed("tp 2 sp, full recomputation", windows, [](sim::Layout& l) {
    l.tensor_parallel = 2;
    l.sequence_parallel = true;
    l.recompute = sim::Recompute::full;
  });
  check_packed("cp 2, all-to-all", windows, [](sim::Layout& l) {
    l.sequence_length = 24;
    l.packed_length = 12;
    l.context_parallel = 2;
    l.context_exchange = sim::ContextExchange::all_to_all;
  });
}

// Layouts are compared with each other: that a window and a share reach the kernels shows in
// losses.
TEST_CASE("windows and positions of a part of a head change the losses", "[packed]") {
  sim::Layout from;
  from.sequence_length = 12;
  from.global_batch = 8;
  const sim::Layout layout = one_rank_layout(from);
  const auto text = equivalence_text();
  const auto losses = [&](const ModelTraits& traits) {
    const sim::Model model = equivalence_model(traits);
    const auto samples = open_samples(text->path(), model, layout.sequence_length);
    return train_on_host(model, layout, five_steps(1e-3), *samples).losses;
  };
  const auto plain = losses({.llama = true, .layers = 2});
  const auto differs = [&](const ModelTraits& traits) {
    return largest_relative_difference(losses(traits), plain);
  };
  CHECK(differs({.llama = true, .layers = 2, .window = 3}) > 100 * same_training_bound);
  CHECK(differs({.llama = true, .layers = 2, .window = 12}) == 0);
  CHECK(differs({.llama = true, .layers = 2, .rotary_share = 0.7}) > same_training_bound);
}

TEST_CASE("packed sequences that ranks share train the model that they train alone", "[packed]") {
  const ModelTraits llama{.llama = true, .layers = 2};
  check_packed("cp 3, ring", llama, [](sim::Layout& l) { l.context_parallel = 3; });
  check_packed("cp 3, all-gather, dropout", {.layers = 2, .dropout = 0.2}, [](sim::Layout& l) {
    l.context_parallel = 3;
    l.context_exchange = sim::ContextExchange::all_gather;
  });
  check_packed("cp 2, all-to-all", llama, [](sim::Layout& l) {
    l.sequence_length = 24;
    l.packed_length = 12;
    l.context_parallel = 2;
    l.context_exchange = sim::ContextExchange::all_to_all;
  });
}

TEST_CASE("packed sequences train the mixture of experts that they train alone", "[packed]") {
  const ModelTraits mixture{.llama = true, .layers = 2, .experts = 4};
  for (const auto routing : {sim::TokenRouting::automatic, sim::TokenRouting::softmax})
    check_packed(
        "ep 2", mixture, [](sim::Layout& l) { l.data_parallel = l.expert_parallel = 2; }, routing);
}

}  // namespace
}  // namespace real::test
