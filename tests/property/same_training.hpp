// Whether a layout trains the model that one rank trains.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "real/engine/data/labelled_text.hpp"
#include "tests/catch.hpp"
#include "tests/property/equivalence.hpp"
#include "tests/property/equivalence_cases.hpp"

namespace real::test {

// Relative, of losses, norms and weights in fp32.
inline constexpr double same_training_bound = 1e-5;

inline sim::Training five_steps(double epsilon) {
  sim::Training training;
  training.steps = 5;
  training.learning_rate.peak = 1e-2;
  training.epsilon = epsilon;
  return training;
}

inline double largest_relative_difference(const std::vector<double>& a,
                                          const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::fabs(a[i] - b[i]) / std::fabs(b[i]));
  return worst;
}

// `reference` on the layout `alone` is what `model` on `layout` is held against.
inline void check_same_steps(const sim::Model& model, const sim::Layout& layout,
                             const sim::Model& reference, const sim::Layout& alone,
                             const Samples& samples, const sim::Training& training) {
  const TrainedModel expected = train_on_host(reference, alone, training, samples);
  const TrainedModel got = train_on_host(model, layout, training, samples);
  CHECK(expected.losses.size() == 5);
  CHECK(largest_relative_difference(got.losses, expected.losses) <= same_training_bound);
  CHECK(largest_relative_difference(got.norms, expected.norms) <= same_training_bound);
  const Difference weights = largest_difference(got.parameters, got.weights, expected.weights,
                                                training.learning_rate.peak);
  CAPTURE(weights.parameter);
  CHECK(weights.relative <= same_training_bound);
}

inline void check_same_training(const sim::Model& model, const sim::Layout& layout,
                                const sim::Layout& alone, const Samples& samples,
                                sim::TokenRouting routing = sim::TokenRouting::automatic) {
  sim::Training training = five_steps(1e-3);
  training.routing = routing;
  check_same_steps(model, layout, model, alone, samples, training);
  sim::Training usual = five_steps(1e-8);
  usual.routing = routing;
  CHECK(largest_relative_difference(train_on_host(model, layout, usual, samples).losses,
                                    train_on_host(model, alone, usual, samples).losses) <=
        same_training_bound);
}

inline void check_case(const EquivalenceCase& one,
                       sim::TokenRouting routing = sim::TokenRouting::automatic) {
  CAPTURE(one.name, sim::word(routing));
  const sim::Model model = equivalence_model(one.model);
  const auto text = one.model.encoder ? equivalence_sentences() : equivalence_text();
  const auto samples = open_samples(text->path(), model, one.layout.sequence_length);
  check_same_training(model, one.layout, one_rank_layout(one.layout), *samples, routing);
}

}  // namespace real::test
