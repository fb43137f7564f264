// Whole numbers, rounded up.
#pragma once

#include <concepts>

namespace sim {

// The least whole number that is not below value / unit. REQUIRES: value >= 0, unit > 0.
constexpr auto divide_up(std::integral auto value, std::integral auto unit) {
  return (value + unit - 1) / unit;
}

// The least multiple of `unit` that is not below `value`. REQUIRES: value >= 0, unit > 0.
constexpr auto round_up(std::integral auto value, std::integral auto unit) {
  return divide_up(value, unit) * unit;
}

}  // namespace sim
