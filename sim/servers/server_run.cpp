#include "sim/servers/server_run.hpp"

#include <numeric>

namespace sim {
namespace {

std::int64_t total_of(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

double ServerRun::mean_staleness() const {
  const std::int64_t total = total_of(staleness);
  if (total == 0) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < staleness.size(); ++i)
    sum += static_cast<double>(i) * static_cast<double>(staleness[i]);
  return sum / static_cast<double>(total);
}

std::int64_t ServerRun::staleness_quantile(double share) const {
  const double wanted = share * static_cast<double>(total_of(staleness));
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < staleness.size(); ++i) {
    seen += staleness[i];
    if (seen > 0 && static_cast<double>(seen) >= wanted) return static_cast<std::int64_t>(i);
  }
  return 0;
}

}  // namespace sim
