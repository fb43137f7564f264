// A step of plain descent falls by its rate times the square of the gradient's norm.
#pragma once

#include <cmath>

#include "tests/catch.hpp"
#include "tests/property/equivalence.hpp"

namespace real::test {

inline constexpr double small_rate = 1e-3;

// slope_training() is eight steps without momentum, so that they follow the gradient: of size
// `first` at first, of `small_rate` at last.
inline sim::Training slope_training(double first) {
  sim::Training training;
  training.steps = 8;
  training.epsilon = 1e4;
  training.beta1 = 0;
  training.learning_rate = {.peak = first * training.epsilon,
                            .decay = sim::RateDecay::linear,
                            .minimum = small_rate * training.epsilon,
                            .decay_steps = 6};
  training.weight_decay = training.clip = 0;
  return training;
}

// check_slope() holds the fall of the loss in the last step to the norm of the gradient.
inline void check_slope(const TrainedModel& got) {
  const double fall = got.losses[6] - got.losses[7];
  CAPTURE(got.losses, got.norms);
  CHECK(got.losses[6] < got.losses[0] - 0.1);
  CHECK(std::fabs(fall / (small_rate * got.norms[6] * got.norms[6]) - 1) < 0.02);
}

}  // namespace real::test
