// Low-rank adapters beside frozen weights: every layout trains those that one rank trains
// (equivalence_test.cpp says how the two are compared), their gradients are the slope of the loss,
// and they begin with the model as it is.
#include <set>

#include "real/engine/kernels/nf4.hpp"
#include "tests/property/same_training.hpp"
#include "tests/property/slope.hpp"
#include "tests/property/support.hpp"

namespace real::test {
namespace {

sim::Layout adapted_layout() {
  sim::Layout from;
  from.sequence_length = 12;
  from.global_batch = 8;
  sim::Layout layout = one_rank_layout(from);
  layout.lora_rank = 4;
  return layout;
}

void check_adapted(const char* name, const ModelTraits& traits, void (*change)(sim::Layout&)) {
  CAPTURE(name);
  sim::Layout layout = adapted_layout();
  layout.micro_batch = 2;
  change(layout);
  sim::Layout alone = adapted_layout();
  alone.frozen_format = layout.frozen_format;
  alone.lora_modules = layout.lora_modules;
  const sim::Model model = equivalence_model(traits);
  const auto text = equivalence_text();
  const auto samples = open_samples(text->path(), model, layout.sequence_length);
  check_same_training(model, layout, alone, *samples);
}

TEST_CASE("every layout trains the adapters that one rank trains", "[adapters]") {
  const ModelTraits llama{.llama = true, .tied = true, .grouped = true, .layers = 2};
  const ModelTraits gpt{.layers = 2};  // with biases
  for (const ModelTraits& model : {llama, gpt}) {
    check_adapted("micro-batches", model, [](sim::Layout&) {});
    check_adapted("dp 2", model, [](sim::Layout& l) { l.data_parallel = 2; });
    check_adapted("dp 2 ZeRO-1", model, [](sim::Layout& l) {
      l.data_parallel = 2;
      l.zero_stage = 1;
    });
    check_adapted("dp 2 ZeRO-2", model, [](sim::Layout& l) {
      l.data_parallel = 2;
      l.zero_stage = 2;
    });
    check_adapted("pp 2 dp 2", model,
                  [](sim::Layout& l) { l.pipeline_parallel = l.data_parallel = 2; });
    check_adapted("pp 2, GPipe", model, [](sim::Layout& l) {
      l.pipeline_parallel = 2;
      l.schedule = sim::Schedule::gpipe;
    });
    check_adapted("cp 2", model, [](sim::Layout& l) { l.context_parallel = 2; });
    check_adapted("full recomputation", model,
                  [](sim::Layout& l) { l.recompute = sim::Recompute::full; });
    check_adapted("NF4, pp 2 dp 2", model, [](sim::Layout& l) {
      l.pipeline_parallel = l.data_parallel = 2;
      l.frozen_format = sim::FrozenFormat::nf4;
    });
    check_adapted("NF4, full recomputation, ZeRO-1", model, [](sim::Layout& l) {
      l.data_parallel = 2;
      l.zero_stage = 1;
      l.recompute = sim::Recompute::full;
      l.frozen_format = sim::FrozenFormat::nf4;
    });
    check_adapted("adapters of attention alone", model, [](sim::Layout& l) {
      l.data_parallel = 2;
      l.lora_modules = {sim::LoraModule::linear_qkv, sim::LoraModule::linear_proj};
    });
  }
  check_adapted("norms of queries and keys, dropout",
                {.llama = true, .qk_norm = true, .layers = 2, .dropout = 0.1},
                [](sim::Layout& l) { l.data_parallel = 2; });
  check_adapted("norms behind the sums", {.post_norm = true, .layers = 2},
                [](sim::Layout& l) { l.data_parallel = 2; });
}

TEST_CASE("adapters begin with the model as it is", "[adapters]") {
  const sim::Model model = equivalence_model({.llama = true, .layers = 2});
  const auto text = equivalence_text();
  const auto samples = open_samples(text->path(), model, 12);
  sim::Layout plain = adapted_layout();
  plain.lora_rank = 0;
  const sim::Training training = five_steps(1e-3);
  const TrainedModel whole = train_on_host(model, plain, training, *samples);
  const TrainedModel adapted = train_on_host(model, adapted_layout(), training, *samples);
  CHECK(adapted.losses.front() == whole.losses.front());
  CHECK(adapted.losses.back() < adapted.losses.front());
  CHECK(std::fabs(adapted.losses.back() / whole.losses.back() - 1) > 1e-3);
}

TEST_CASE("weights in NF4 are near those that they stand for", "[adapters]") {
  const sim::Model model = equivalence_model({.llama = true, .layers = 2});
  const auto text = equivalence_text();
  const auto samples = open_samples(text->path(), model, 12);
  sim::Layout narrow = adapted_layout();
  narrow.frozen_format = sim::FrozenFormat::nf4;
  const sim::Training training = five_steps(1e-3);
  const double exact = train_on_host(model, adapted_layout(), training, *samples).losses.front();
  const double rounded = train_on_host(model, narrow, training, *samples).losses.front();
  CHECK(rounded != exact);
  CHECK(std::fabs(rounded / exact - 1) < 1e-3);
}

// A block whose largest value is 2 has the format's values times 2, as its scale is the mean of all
// scales: what double quantization leaves of it is exact.
TEST_CASE("NF4 has sixteen values in a block", "[adapters]") {
  std::vector<float> values;
  for (int i = 0; i < 64; ++i)
    values.push_back(2.0F * static_cast<float>(i - 32) / 32);
  round_to_nf4(values);
  const std::set<float> seen{values.begin(), values.end()};
  CHECK(seen.size() == 16);
  CHECK(*seen.begin() == -2.0F);
  CHECK(seen.contains(0.0F));
  CHECK(seen.contains(2 * 0.7229568362236023F));
  // 0.2 of the scale lies between 0.1609 and 0.2461, whose middle is 0.2035.
  CHECK(seen.contains(2 * 0.16093020141124725F));
  // Scales 1 and 3: their mean is 2, what is left of them -1 and 1, which the dynamic format has.
  std::vector<float> two(128, 1.0F);
  std::fill(two.begin() + 64, two.end(), 3.0F);
  round_to_nf4(two);
  CHECK(two.back() == 3.0F);
  CHECK(std::fabs(two.front() - 1.0F) < 0.01F);
}

// As that of a classifier (equivalence_test.cpp), every sequence the same. Steps of size 2 first,
// so that neither factor is zero; without momentum, steps follow the gradient.
TEST_CASE("the gradient of adapters is the slope of the loss", "[adapters]") {
  const sim::test::TemporaryFile text{"THE CAT SAT O", ".txt"};
  for (const bool llama : {true, false}) {
    const sim::Model model = equivalence_model({.llama = llama, .layers = 2});
    const auto samples = open_samples(text.path(), model, 12);
    CAPTURE(llama);
    check_slope(train_on_host(model, adapted_layout(), slope_training(2), *samples));
  }
}

}  // namespace
}  // namespace real::test
