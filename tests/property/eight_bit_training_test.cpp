// Products in 8 bits: losses follow those of fp32, and layouts train the model that one rank
// trains, wherever they have the same scales.
#include "tests/property/same_training.hpp"
#include "tests/property/support.hpp"

namespace real::test {
namespace {

constexpr int sequence = 32;

// Sizes that blocks of 128 divide.
sim::Model model_of(sim::EightBit software) {
  sim::Model model = sim::load_model(sim::test::TemporaryFile{
      "name: tiny\nsource: made for a test\ntransformer:\n  layers: 2\n  hidden: 128\n"
      "  heads: 4\n  feed_forward: 128\n  vocabulary: 101\n  norm: layer\n"
      "  activation: gelu\n  positions: learned\n  max_sequence: 32\n  biases: all\n"}
                                         .path());
  model.execution.eight_bit = software;
  return model;
}

sim::Layout layout_in(sim::DType compute) {
  sim::Layout layout;
  layout.sequence_length = sequence;
  layout.global_batch = 8;
  layout.micro_batch = 4;
  layout = one_rank_layout(layout);
  layout.micro_batch = 4;
  layout.compute_dtype = compute;
  return layout;
}

// Without clipping: the norm is a sum in another order in every layout.
sim::Training training_of_eight_bits() {
  sim::Training training = five_steps(1e-3);
  training.clip = 0;
  return training;
}

struct Runs {
  sim::Model model;
  std::unique_ptr<sim::test::TemporaryFile> text = equivalence_text();
  std::unique_ptr<Samples> samples = open_samples(text->path(), model, sequence);
  explicit Runs(sim::EightBit software) : model{model_of(software)} {}
  TrainedModel train(const sim::Layout& layout) const {
    return train_on_host(model, layout, training_of_eight_bits(), *samples);
  }
};

using Change = void (*)(sim::Layout&);

sim::Layout changed(Change change) {
  sim::Layout layout = layout_in(sim::DType::fp8);
  change(layout);
  return layout;
}

// Of weights: against those of 1e-2 at least, by which two steps move them.
double weights_apart(const TrainedModel& a, const TrainedModel& b) {
  return largest_difference(a.parameters, a.weights, b.weights, 1e-2).relative;
}

// Codes have 4 bits of mantissa, those of gradients 3 where a tensor has one scale: a term is wrong
// by 2^-4 or 2^-3 at most, and the sums of 128 terms of both signs average that out.
TEST_CASE("losses in 8 bits follow those of fp32 within one percent", "[eight_bit]") {
  for (const sim::EightBit software :
       {sim::EightBit::transformer_engine, sim::EightBit::transformer_engine_linear,
        sim::EightBit::transformer_engine_tensorwise, sim::EightBit::transformer_engine_blockwise,
        sim::EightBit::transformer_engine_mxfp8, sim::EightBit::torchao}) {
    CAPTURE(sim::word(software));
    const Runs runs{software};
    const TrainedModel wide = runs.train(layout_in(sim::DType::fp32));
    const TrainedModel narrow = runs.train(layout_in(sim::DType::fp8));
    CHECK(largest_relative_difference(narrow.losses, wide.losses) < 0.01);
    CHECK(std::fabs(narrow.losses[0] / wide.losses[0] - 1) > 1e-6);  // it is not fp32
  }
}

// The same numbers, to the bit: products are cast again with the scales of their micro-batch.
TEST_CASE("pipelines and recomputation leave the codes as they are", "[eight_bit]") {
  for (const sim::EightBit software :
       {sim::EightBit::transformer_engine, sim::EightBit::transformer_engine_tensorwise,
        sim::EightBit::transformer_engine_mxfp8}) {
    CAPTURE(sim::word(software));
    const Runs runs{software};
    const TrainedModel alone = runs.train(layout_in(sim::DType::fp8));
    for (const Change change : {Change{[](sim::Layout& l) {
                                  l.pipeline_parallel = 2;
                                  l.schedule = sim::Schedule::zb_h1;
                                }},
                                Change{[](sim::Layout& l) {
                                  l.pipeline_parallel = 2;
                                  l.recompute = sim::Recompute::full;
                                }}}) {
      const TrainedModel got = runs.train(changed(change));
      CHECK(got.losses == alone.losses);
      CHECK(weights_apart(got, alone) == 0);
    }
  }
}

// Sums in another order make another code now and then.
TEST_CASE("replicas and shards of parameters leave the scales as they are", "[eight_bit]") {
  for (const sim::EightBit software :
       {sim::EightBit::transformer_engine_tensorwise, sim::EightBit::transformer_engine_blockwise,
        sim::EightBit::torchao}) {
    CAPTURE(sim::word(software));
    const Runs runs{software};
    const TrainedModel got = runs.train(changed([](sim::Layout& l) {
      l.data_parallel = 2;
      l.zero_stage = 3;
    }));
    const TrainedModel alone = runs.train(layout_in(sim::DType::fp8));
    CHECK(largest_relative_difference(got.losses, alone.losses) < 1e-3);
    CHECK(weights_apart(got, alone) < 0.05);
  }
}

// Ranks share the maxima: those of a part of the features are those of all. With scales of the part
// alone, weights come to lie 0.8 apart.
TEST_CASE("delayed scales are the same on every tensor rank", "[eight_bit]") {
  const Runs runs{sim::EightBit::transformer_engine};
  const TrainedModel alone = runs.train(layout_in(sim::DType::fp8));
  const TrainedModel got = runs.train(changed([](sim::Layout& l) { l.tensor_parallel = 2; }));
  CHECK(largest_relative_difference(got.losses, alone.losses) < 1e-3);
  CHECK(weights_apart(got, alone) < 0.05);
}

// A context rank takes the loss over its own tokens, so its gradients and their scales are others.
TEST_CASE("context ranks train in 8 bits what follows fp32 within one percent", "[eight_bit]") {
  for (const sim::EightBit software :
       {sim::EightBit::transformer_engine, sim::EightBit::transformer_engine_mxfp8}) {
    CAPTURE(sim::word(software));
    const Runs runs{software};
    const TrainedModel wide = runs.train(layout_in(sim::DType::fp32));
    const TrainedModel narrow = runs.train(changed([](sim::Layout& l) { l.context_parallel = 2; }));
    CHECK(largest_relative_difference(narrow.losses, wide.losses) < 0.01);
  }
}

}  // namespace
}  // namespace real::test
