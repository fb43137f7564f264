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
#include "tests/property/equivalence.hpp"

#include <algorithm>
#include <cmath>

#include "real/engine/labelled_text.hpp"
#include "tests/catch.hpp"
#include "tests/property/equivalence_cases.hpp"

namespace real::test {
namespace {

constexpr double bound = 1e-5;

sim::Training five_steps(double epsilon) {
  sim::Training training;
  training.steps = 5;
  training.learning_rate.peak = 1e-2;
  training.epsilon = epsilon;
  return training;
}

double largest_relative(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::fabs(a[i] - b[i]) / std::fabs(b[i]));
  return worst;
}

void check_case(const EquivalenceCase& one) {
  CAPTURE(one.name);
  const sim::Model model = equivalence_model(one.model);
  const auto text = one.model.encoder ? equivalence_sentences() : equivalence_text();
  const auto samples = open_samples(text->path(), model, one.layout.sequence_length);
  const sim::Layout alone = one_rank_layout(one.layout);
  const sim::Training training = five_steps(1e-3);
  const TrainedModel expected = train_on_host(model, alone, training, *samples);
  const TrainedModel got = train_on_host(model, one.layout, training, *samples);
  CHECK(expected.losses.size() == 5);
  CHECK(largest_relative(got.losses, expected.losses) <= bound);
  CHECK(largest_relative(got.norms, expected.norms) <= bound);
  const Difference weights = largest_difference(got.parameters, got.weights, expected.weights,
                                                training.learning_rate.peak);
  CAPTURE(weights.parameter);
  CHECK(weights.relative <= bound);
  const sim::Training usual = five_steps(1e-8);
  CHECK(largest_relative(train_on_host(model, one.layout, usual, *samples).losses,
                         train_on_host(model, alone, usual, *samples).losses) <= bound);
}

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

}  // namespace
}  // namespace real::test
