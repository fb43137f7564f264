// How well a median is known.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace sim {

// Half the width of the interval that holds the median with 95%, relative to the median. Infinite
// below 5 values. The order statistics n/2 -+ 0.98 sqrt(n) enclose it (Conover 1999, section 3.2:
// binomial(n, 1/2) by its normal approximation, 1.96 * sqrt(n) / 2).
inline double median_half_width(std::vector<double> values) {
  if (values.size() < 5) return std::numeric_limits<double>::infinity();
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  const double reach = 0.98 * std::sqrt(n);
  const auto low = static_cast<std::size_t>(std::max(0.0, std::floor(n / 2 - reach)));
  const auto high = std::min(values.size() - 1, static_cast<std::size_t>(std::ceil(n / 2 + reach)));
  const double middle = values[values.size() / 2];
  return middle > 0 ? (values[high] - values[low]) / 2 / middle : 0;
}

}  // namespace sim
