#include "sim/servers/staleness.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace sim {
namespace {

double total_of(const std::vector<std::int64_t>& counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
}

}  // namespace

void Staleness::add(std::int64_t updates) {
  const auto index = static_cast<std::size_t>(updates);
  if (counts_.size() <= index) counts_.resize(index + 1);
  ++counts_[index];
}

void Staleness::add(const Staleness& others) {
  counts_.resize(std::max(counts_.size(), others.counts_.size()));
  for (std::size_t i = 0; i < others.counts_.size(); ++i)
    counts_[i] += others.counts_[i];
}

double Staleness::mean() const {
  if (empty()) return 0;
  double sum = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    sum += static_cast<double>(i) * static_cast<double>(counts_[i]);
  return sum / total_of(counts_);
}

std::int64_t Staleness::quantile(double share) const {
  const double wanted = share * total_of(counts_);
  std::int64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen > 0 && static_cast<double>(seen) >= wanted) return static_cast<std::int64_t>(i);
  }
  return 0;
}

std::string to_text(const Staleness& staleness, int decimals) {
  return fmt::format(
      "{:.{}f} updates of other workers in the mean, half of all within {}, 95 % within {}, most "
      "{}",
      staleness.mean(), decimals, staleness.quantile(0.5), staleness.quantile(0.95),
      staleness.most());
}

}  // namespace sim
