#include "sim/layout/learning_rate.hpp"

#include <cmath>
#include <numbers>

namespace sim {

double LearningRate::at(std::int64_t step) const {
  if (warmup_steps > 0 && step <= warmup_steps)
    return initial +
           (peak - initial) * static_cast<double>(step) / static_cast<double>(warmup_steps);
  if (decay == RateDecay::constant) return peak;
  if (step >= decay_steps) return minimum;
  const double ratio =
      static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps - warmup_steps);
  const double share =
      decay == RateDecay::linear ? 1 - ratio : (1 + std::cos(std::numbers::pi * ratio)) / 2;
  return minimum + (peak - minimum) * share;
}

}  // namespace sim
