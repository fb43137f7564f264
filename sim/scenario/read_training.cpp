#include "sim/scenario/read_training.hpp"

#include <limits>

namespace sim {

Training read_training(const Layered& section) {
  Training training;
  training.steps = section.int_or("steps", training.steps, {1, 1'000'000'000});
  training.seed = static_cast<std::uint64_t>(
      section.integer_or("seed", 1, {0, std::numeric_limits<std::int64_t>::max()}));
  training.learning_rate = section.real_or("learning_rate", training.learning_rate, {0, 1});
  // At 1 a moment would never move, and its bias correction would divide by zero.
  constexpr double most = 0.9999999;
  training.beta1 = section.real_or("beta1", training.beta1, {0, most});
  training.beta2 = section.real_or("beta2", training.beta2, {0, most});
  training.epsilon = section.real_or("epsilon", training.epsilon, {1e-30, 1});
  training.weight_decay = section.real_or("weight_decay", training.weight_decay, {0, 1});
  training.clip = section.real_or("clip", training.clip, {0, 1e6});
  return training;
}

}  // namespace sim
