// Whole numbers, rounded to multiples.
#pragma once

#include <cstdint>

namespace sim {

// The least multiple of `unit` that is not below `value`. REQUIRES: value >= 0, unit > 0.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace sim
