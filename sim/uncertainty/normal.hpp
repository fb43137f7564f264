// The normal distribution, and the error of a step's time as one.
#pragma once

#include <cmath>
#include <numbers>

#include "sim/uncertainty/time_interval.hpp"

namespace sim {

// The chance that a standard normal variable is below `x`.
inline double normal_below(double x) {
  return std::erfc(-x / std::numbers::sqrt2) / 2;
}

// The `x` below which a standard normal variable is with this chance, in (0, 1). By bisection:
// exact to a double's last bits near the middle, and within 40 of zero.
inline double normal_quantile(double chance) {
  double low = -40, high = 40;
  for (int halving = 0; halving < 100; ++halving) {
    const double middle = (low + high) / 2;
    (normal_below(middle) < chance ? low : high) = middle;
  }
  return (low + high) / 2;
}

// ln(measured / forecast) of a step's time: normal.
struct StepError {
  double mean = 0, deviation = 0;

  // The one of which `interval` holds its share, as much below it as above.
  static StepError of(const TimeInterval& interval) {
    const double low = std::log(interval.low), high = std::log(interval.high);
    if (!(interval.level > 0 && interval.level < 1)) return {};
    return {.mean = (low + high) / 2,
            .deviation = (high - low) / 2 / normal_quantile((1 + interval.level) / 2)};
  }
  // The chance that the true time is no longer than `factor` times the forecast one.
  double chance_within(double factor) const {
    if (factor <= 0) return 0;
    const double beyond = std::log(factor) - mean;
    if (deviation == 0) return beyond >= 0 ? 1 : 0;
    return normal_below(beyond / deviation);
  }
};

}  // namespace sim
