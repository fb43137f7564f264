// More tensor ranks than key/value heads train the model that one rank trains (equivalence_test.cpp
// says how the two are compared).
#include "tests/property/same_training.hpp"

namespace real::test {
namespace {

void check_shared(const char* name, const ModelTraits& traits, void (*change)(sim::Layout&)) {
  CAPTURE(name);
  sim::Layout from;
  from.sequence_length = 12;
  from.global_batch = 8;
  const sim::Layout alone = one_rank_layout(from);
  sim::Layout layout = alone;
  layout.micro_batch = 2;
  layout.tensor_parallel = 4;
  change(layout);
  sim::Model model = equivalence_model(traits);
  model.execution.shares_key_heads = true;
  const auto text = equivalence_text();
  const auto samples = open_samples(text->path(), model, layout.sequence_length);
  check_same_training(model, layout, alone, *samples);
}

TEST_CASE("tensor ranks that share key/value heads train the model that one rank trains",
          "[key_heads]") {
  // Two key/value heads.
  const ModelTraits llama{.llama = true, .grouped = true, .layers = 2};
  const ModelTraits gpt{.grouped = true, .layers = 2};  // with biases
  check_shared("tp 4", llama, [](sim::Layout&) {});
  check_shared("tp 4, biases", gpt, [](sim::Layout&) {});
  check_shared("tp 4 sp", llama, [](sim::Layout& l) { l.sequence_parallel = true; });
  check_shared("tp 4 sp, norms of queries and keys",
               {.llama = true, .grouped = true, .qk_norm = true, .layers = 2},
               [](sim::Layout& l) { l.sequence_parallel = true; });
  check_shared("tp 4 dp 2 ZeRO-3", llama, [](sim::Layout& l) {
    l.data_parallel = 2;
    l.zero_stage = 3;
  });
  check_shared("tp 4 pp 2, zero bubbles", gpt, [](sim::Layout& l) {
    l.pipeline_parallel = 2;
    l.schedule = sim::Schedule::zb_h1;
  });
  check_shared("tp 4 sp, full recomputation", llama, [](sim::Layout& l) {
    l.sequence_parallel = true;
    l.recompute = sim::Recompute::full;
  });
  check_shared("tp 4, unfused attention, dropout", {.grouped = true, .layers = 2, .dropout = 0.2},
               [](sim::Layout& l) { l.attention = sim::AttentionKernel::unfused; });
  check_shared("tp 4, unfused attention, window",
               {.llama = true, .grouped = true, .layers = 2, .window = 5},
               [](sim::Layout& l) { l.attention = sim::AttentionKernel::unfused; });
  check_shared("tp 4, MLP again", gpt, [](sim::Layout& l) {
    l.recompute = sim::Recompute::selective;
    l.recompute_modules = {sim::RecomputeModule::mlp};
  });
  check_shared("tp 4, dropout", {.grouped = true, .layers = 2, .dropout = 0.2},
               [](sim::Layout&) {});
  check_shared("tp 4 cp 2", llama, [](sim::Layout& l) { l.context_parallel = 2; });
  check_shared("tp 4 sp cp 2, full recomputation", llama, [](sim::Layout& l) {
    l.micro_batch = 4;
    l.context_parallel = 2;
    l.recompute = sim::Recompute::full;
  });
}

}  // namespace
}  // namespace real::test
