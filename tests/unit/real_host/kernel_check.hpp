// Parts that the kernel tests share: random tensors, and comparison of a gradient with finite
// differences of a float64 function written for the test alone.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/catch.hpp"

namespace real_test {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

inline Floats random_floats(std::uint64_t seed, std::uint64_t stream, std::int64_t size,
                            double scale = 1.0) {
  Floats values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * sim::standard_normal(seed, stream, i));
  return values;
}

// A shape between `low` and `high`.
inline std::int64_t random_size(std::uint64_t seed, std::uint64_t stream, std::int64_t low,
                                std::int64_t high) {
  const double u = sim::uniform(seed, stream, 0);
  return low + static_cast<std::int64_t>(u * static_cast<double>(high - low + 1));
}

inline Doubles exact(const Floats& values) {
  return {values.begin(), values.end()};
}

inline double dot(const Doubles& a, std::span<const float> b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    total += a[i] * static_cast<double>(b[i]);
  return total;
}

// Largest difference relative to the largest entry of the reference.
inline double relative_error(std::span<const float> values, const Doubles& reference) {
  REQUIRE(values.size() == reference.size());
  double largest = 1e-30;
  double error = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    largest = std::max(largest, std::abs(reference[i]));
    error = std::max(error, std::abs(static_cast<double>(values[i]) - reference[i]));
  }
  return error / largest;
}

// Gradient of `function` at `at` by central differences: with h = 1e-5 in float64 the error is
// about h^2 plus 1e-16 / h, some 1e-10 of the third derivative and the value.
inline Doubles finite_differences(const std::function<double(const Doubles&)>& function,
                                  Doubles at) {
  constexpr double h = 1e-5;
  Doubles gradient(at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double value = at[i];
    at[i] = value + h;
    const double above = function(at);
    at[i] = value - h;
    const double below = function(at);
    at[i] = value;
    gradient[i] = (above - below) / (2 * h);
  }
  return gradient;
}

// float32 arithmetic over sums of up to a few hundred terms.
inline constexpr double float_error = 2e-5;

}  // namespace real_test
