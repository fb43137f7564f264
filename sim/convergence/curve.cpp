#include "sim/convergence/curve.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sim {

std::vector<double> smoothed(std::span<const double> losses, int window) {
  std::vector<double> curve;
  const auto half = static_cast<std::size_t>((window - 1) / 2);
  if (losses.size() < static_cast<std::size_t>(window)) return curve;
  for (std::size_t i = 0; i + half < losses.size(); ++i) {
    const std::size_t reach = std::min(half, i);
    const std::span<const double> part = losses.subspan(i - reach, 2 * reach + 1);
    curve.push_back(std::accumulate(part.begin(), part.end(), 0.0) /
                    static_cast<double>(part.size()));
  }
  return curve;
}

std::optional<double> steps_to(std::span<const double> curve, double level) {
  const auto found = std::ranges::find_if(curve, [&](double value) { return value <= level; });
  if (found == curve.end()) return std::nullopt;
  const auto at = static_cast<std::size_t>(found - curve.begin());
  if (at == 0) return 0.0;
  const double before = curve[at - 1], behind = curve[at];
  return static_cast<double>(at) - (level - behind) / (before - behind);
}

std::optional<Spread> spread_of(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values)
    squares += (value - mean) * (value - mean);
  return Spread{mean, values.size() > 1 ? std::sqrt(squares / (count - 1)) : 0};
}

}  // namespace sim
