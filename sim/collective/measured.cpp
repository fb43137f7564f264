// Curves measured on the topology itself. Within a curve's sizes its times hold, interpolated
// linearly between the logarithms of size and time: a straight line there is a power law, which
// both the latency-bound and the bandwidth-bound part of a collective are.
#include <algorithm>
#include <cmath>

#include "sim/collective/algorithms.hpp"

namespace sim {

const MeasuredCurve* find_curve(const Cluster& cluster, std::string_view collective, int ranks,
                                int nodes, Algorithm algorithm) {
  const std::string_view wanted = algorithm == Algorithm::automatic ? "" : word(algorithm);
  for (const MeasuredCurve& curve : cluster.measured())
    if (curve.ranks == ranks && curve.nodes == nodes && curve.collective == collective &&
        curve.algorithm == wanted && !curve.points.empty())
      return &curve;
  return nullptr;
}

double interpolate(const MeasuredCurve& curve, double bytes) {
  const auto& points = curve.points;
  const auto above = std::lower_bound(points.begin(), points.end(), bytes,
                                      [](const MeasuredPoint& point, double size) {
                                        return static_cast<double>(point.size.count()) < size;
                                      });
  if (above == points.begin()) return to_seconds(above->time);
  if (above == points.end()) return to_seconds(points.back().time);
  const auto below = std::prev(above);
  const double x0 = std::log(static_cast<double>(below->size.count()));
  const double x1 = std::log(static_cast<double>(above->size.count()));
  const double y0 = std::log(to_seconds(below->time));
  const double y1 = std::log(to_seconds(above->time));
  return std::exp(y0 + (y1 - y0) * (std::log(bytes) - x0) / (x1 - x0));
}

}  // namespace sim
