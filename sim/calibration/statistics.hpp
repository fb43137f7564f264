// Quantiles of a few numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace sim {

// Nearest rank: the smallest value that at least the share `q` of all does not exceed.
// REQUIRES: `values` is not empty.
inline double quantile_of(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double rank = std::max(1.0, std::ceil(q * static_cast<double>(values.size())));
  return values[static_cast<std::size_t>(rank) - 1];
}

// The middle, or the mean of the two in the middle. REQUIRES: `values` is not empty.
inline double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace sim
