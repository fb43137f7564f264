// Every layout trains the same model: on host ranks, float32, against the run of one rank that has
// the whole batch in one micro-batch.
//
// Compared over 5 steps: every loss and gradient norm, relative; then, of every tensor of weights,
// max |a - b| / max(max |b|, r), r the learning rate, the size of a full step of Adam: a bias whose
// gradient is zero but for rounding stays near zero. The bound is 1e-5 for all of them.
//
// Adam divides by sqrt(v) + epsilon. Where a gradient is zero but for rounding (the bias of keys:
// softmax does not see it), that turns noise of 1e-9 into steps of full size when epsilon is 1e-8,
// on one rank as on many. So the weights are compared at epsilon 1e-3, the size of the gradients;
// at 1e-8 the losses are.
#include <cmath>

#include "tests/property/same_training.hpp"

namespace real::test {
namespace {

constexpr double bound = same_training_bound;

TEST_CASE("every listed layout trains the model that one rank trains", "[equivalence]") {
  const std::vector<EquivalenceCase> cases = listed_cases();
  CHECK(cases.size() >= 40);
  for (const EquivalenceCase& one : cases)
    check_case(one);
}

TEST_CASE("every listed layout drops the elements that one rank drops, and sees its padding",
          "[equivalence]") {
  const std::vector<EquivalenceCase> cases = listed_encoders();
  CHECK(cases.size() >= 25);
  for (const EquivalenceCase& one : cases)
    check_case(one);
}

// With a gradient step of size h the loss falls by h |gradient|^2: every batch is one sentence, and
// Adam with an epsilon far above the gradients and a rate of h epsilon is such a step.
TEST_CASE("the gradient of a classifier is the slope of its loss", "[equivalence]") {
  const sim::Model model = equivalence_model({.layers = 2, .encoder = true});
  const sim::test::TemporaryFile text{"zero\tw4 w5 w6 w4\n", ".tsv"};
  const auto samples = open_samples(text.path(), model, 8);
  sim::Training training;
  training.steps = 2;
  training.epsilon = 1e4;
  const double h = 1e-3;
  training.learning_rate.peak = h * training.epsilon;
  training.weight_decay = training.clip = 0;
  sim::Layout layout = one_rank_layout({});
  layout.sequence_length = 8;
  layout.global_batch = 4;
  layout.micro_batch = 2;
  const TrainedModel got = train_on_host(model, layout, training, *samples);
  const double fall = got.losses[0] - got.losses[1];
  CAPTURE(got.losses, got.norms);
  CHECK(std::fabs(fall / (h * got.norms[0] * got.norms[0]) - 1) < 0.02);
}

TEST_CASE("layouts drawn at random train the model that one rank trains", "[equivalence]") {
  for (std::uint64_t seed = 1; seed <= 24; ++seed)
    check_case(drawn_case(seed));
}

TEST_CASE("every listed layout trains the mixture of experts that one rank trains",
          "[equivalence][experts]") {
  const std::vector<EquivalenceCase> cases = listed_mixtures();
  CHECK(cases.size() >= 25);
  for (const EquivalenceCase& one : cases)
    check_case(one);
}

TEST_CASE("layouts of mixtures drawn at random train the model that one rank trains",
          "[equivalence][experts]") {
  for (std::uint64_t seed = 1; seed <= 24; ++seed)
    check_case(drawn_mixture(seed));
}

TEST_CASE("every listed layout sends tokens by the scores of their router as one rank does",
          "[equivalence][experts]") {
  for (const EquivalenceCase& one : listed_mixtures())
    check_case(one, sim::TokenRouting::softmax);
}

TEST_CASE("layouts drawn at random send tokens by scores as one rank does",
          "[equivalence][experts]") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed)
    check_case(drawn_mixture(seed),
               seed % 2 == 0 ? sim::TokenRouting::softmax : sim::TokenRouting::sigmoid);
}

// A rank's tokens compete for its places: layouts with the same tokens on each rank drop the same.
TEST_CASE("a capacity drops the same tokens wherever the experts lie", "[equivalence][experts]") {
  const sim::Model model = equivalence_model({.llama = true, .experts = 4});
  const auto text = equivalence_text();
  sim::Layout apart = listed_mixtures().front().layout;
  apart.tensor_parallel = apart.pipeline_parallel = apart.expert_parallel = 1;
  apart.expert_tensor_parallel = 1;
  apart.sequence_parallel = false;
  apart.data_parallel = 4;
  apart.micro_batch = 1;
  apart.expert_capacity = 1;
  const auto samples = open_samples(text->path(), model, apart.sequence_length);
  sim::Training training = five_steps(1e-3);
  // Small updates: their rounding, which differs from CPU to CPU, swaps no scores that are almost
  // equal.
  training.learning_rate.peak = 1e-4;
  training.routing = sim::TokenRouting::softmax;
  const TrainedModel all = [&] {
    sim::Layout dropless = apart;
    dropless.expert_capacity = 0;
    return train_on_host(model, dropless, training, *samples);
  }();
  for (const bool pad : {false, true}) {
    apart.pad_to_capacity = pad;
    const TrainedModel expected = train_on_host(model, apart, training, *samples);
    CHECK(largest_relative_difference(expected.losses, all.losses) >
          1e-5);  // something was dropped
    for (const int experts : {2, 4}) {
      CAPTURE(pad, experts);
      sim::Layout layout = apart;
      layout.expert_parallel = experts;
      const TrainedModel got = train_on_host(model, layout, training, *samples);
      CHECK(largest_relative_difference(got.losses, expected.losses) <= bound);
      CHECK(largest_relative_difference(got.norms, expected.norms) <= bound);
    }
  }
}

// As that of a classifier above; every sequence is the same. No token changes its choice in so
// small a step.
TEST_CASE("the gradient of a mixture routed by scores is the slope of its loss",
          "[equivalence][experts]") {
  const sim::test::TemporaryFile text{"THE CAT SAT O", ".txt"};
  for (const sim::TokenRouting routing : {sim::TokenRouting::softmax, sim::TokenRouting::sigmoid})
    for (const int per_token : {1, 2}) {
      ModelTraits traits{.llama = true, .layers = 2, .experts = 4};
      traits.per_token = per_token;
      const sim::Model model = equivalence_model(traits);
      sim::Layout layout = one_rank_layout({});
      layout.sequence_length = 12;
      layout.global_batch = layout.micro_batch = 2;
      const auto samples = open_samples(text.path(), model, layout.sequence_length);
      sim::Training training;
      training.steps = 2;
      training.epsilon = 1e4;
      const double h = 1e-3;
      training.learning_rate.peak = h * training.epsilon;
      training.weight_decay = training.clip = 0;
      training.routing = routing;
      const TrainedModel got = train_on_host(model, layout, training, *samples);
      const double fall = got.losses[0] - got.losses[1];
      CAPTURE(sim::word(routing), per_token, got.losses, got.norms);
      CHECK(std::fabs(fall / (h * got.norms[0] * got.norms[0]) - 1) < 0.02);
    }
}

TEST_CASE("loads of experts count every choice of every layer once", "[equivalence][experts]") {
  for (const EquivalenceCase& one : listed_mixtures()) {
    CAPTURE(one.name);
    const sim::Model model = equivalence_model(one.model);
    const auto text = equivalence_text();
    const auto samples = open_samples(text->path(), model, one.layout.sequence_length);
    sim::Training training = five_steps(1e-3);
    training.steps = 1;
    training.routing = sim::TokenRouting::softmax;
    const TrainedModel got = train_on_host(model, one.layout, training, *samples);
    REQUIRE(got.expert_loads.size() == 1);
    const sim::Experts& experts = model.shape->experts;
    std::int64_t layers = 0;
    for (std::int64_t layer = 0; layer < model.shape->layers; ++layer)
      if (experts.in_layer(layer)) ++layers;
    CHECK(static_cast<std::int64_t>(got.expert_loads[0].layers.size()) == layers);
    for (const LayerLoad& layer : got.expert_loads[0].layers) {
      std::int64_t sum = 0;
      for (const std::int64_t tokens : layer.tokens)
        sum += tokens;
      CHECK(sum == one.layout.global_batch * one.layout.sequence_length * experts.per_token);
    }
  }
}

}  // namespace
}  // namespace real::test
