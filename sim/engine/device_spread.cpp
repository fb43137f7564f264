#include "sim/engine/device_spread.hpp"

#include <cmath>
#include <numbers>

#include "sim/base/check.hpp"

namespace sim {
namespace {

// The x with P(X <= x) = p of a standard normal: Newton's method on the distribution function.
double normal_quantile(double p) {
  double x = 0;
  for (int i = 0; i < 60; ++i) {
    const double error = std::erfc(-x / std::numbers::sqrt2) / 2 - p;
    const double density =
        std::exp(-x * x / 2) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    const double step = error / density;
    // Halley's correction keeps far tails from overshooting.
    x -= step / (1 + x * step / 2);
    if (std::abs(step) < 1e-12) break;
  }
  return x;
}

}  // namespace

double slowest_of(int devices, double spread) {
  SIM_CHECK(devices >= 1 && spread >= 0, devices, spread);
  const double n = devices;
  return 1 + spread * normal_quantile((n - 0.375) / (n + 0.25));
}

}  // namespace sim
