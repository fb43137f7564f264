#include "sim/options/device_spread.hpp"

#include <cmath>
#include <numbers>

#include "sim/base/check.hpp"

namespace sim {
namespace {

// E[max of n standard normals]: the integral of x n phi(x) Phi(x)^(n-1), by the trapezoidal rule,
// which converges exponentially for a smooth function that vanishes at both ends.
double expected_maximum(double n) {
  constexpr double step = 1.0 / 32;
  constexpr int steps = 10 * 32;  // on each side: beyond 10 there is no double of density left
  double sum = 0;
  for (int i = -steps; i <= steps; ++i) {
    const double x = i * step;
    const double above = std::erfc(x / std::numbers::sqrt2) / 2;  // 1 - Phi(x)
    const double log_density = -x * x / 2 + (n - 1) * std::log1p(-above);
    sum += x * n * std::exp(log_density);
  }
  return sum * step * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
}

}  // namespace

double slowest_of(int devices, double spread) {
  SIM_CHECK(devices >= 1 && spread >= 0, devices, spread);
  if (devices == 1 || spread == 0) return 1;
  return 1 + spread * expected_maximum(devices);
}

}  // namespace sim
