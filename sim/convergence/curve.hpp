// A loss by steps, smoothed, and when it has fallen to a level.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace sim {

// The centred moving average of `window` steps (odd): value i is the mean of the losses from
// i - h to i + h, h = (window - 1) / 2. At the beginning h is smaller, i, so value 0 is the loss
// before any update. The last h losses have no value of their own, so a curve of n losses has
// n - h values; none where there are fewer losses than `window`.
std::vector<double> smoothed(std::span<const double> losses, int window);

// The first step at which the curve is at `level` or below, between two values by a straight line;
// 0 where it begins there. Steps are updates: value i is the loss behind i updates. Empty where the
// curve does not reach it.
std::optional<double> steps_to(std::span<const double> curve, double level);

// Mean and sample standard deviation (n - 1; 0 of one value).
struct Spread {
  double mean = 0, deviation = 0;
};
// Empty without values.
std::optional<Spread> spread_of(std::span<const double> values);

}  // namespace sim
