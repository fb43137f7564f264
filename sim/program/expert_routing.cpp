// A token that chooses k of n experts, all alike, misses each of s given ones in
//   M(n, s) = C(n - s, k) / C(n, k)
// of the cases. With groups, n is what the g chosen ones of G have. Of a set that fills f groups
// and has r experts of one more, j whole groups and the last (l = 1) or not (l = 0) are among the
// chosen with the weight
//   C(f, j) C(G - f - [r > 0], g - j - l) / C(G, g)
// and then s = j E / G + l r. The share that chooses the set is 1 less the sum of weight x M.
#include "sim/program/expert_routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/check.hpp"

namespace sim {
namespace {

double binomial(std::int64_t n, std::int64_t k) {
  if (k < 0 || k > n) return 0;
  double value = 1;
  for (std::int64_t i = 0; i < k; ++i)
    value *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  return value;
}

// M above, as a product that no large number enters.
double misses(std::int64_t experts, std::int64_t given, std::int64_t chosen) {
  if (experts - given < chosen) return 0;
  double share = 1;
  for (std::int64_t i = 0; i < chosen; ++i)
    share *= static_cast<double>(experts - given - i) / static_cast<double>(experts - i);
  return share;
}

// Runs of k experts begin at the multiples of g = gcd(k, n), all alike; (s - 1) / g + (k - 1) / g +
// 1 of them, rounded down, meet the s that begin at one of these.
double share_of_runs(const ExpertRouting& routing, std::int64_t experts) {
  const std::int64_t step = std::gcd(routing.per_token, routing.experts);
  const std::int64_t met = (experts - 1) / step + (routing.per_token - 1) / step + 1;
  const std::int64_t all = routing.experts / step;
  return std::min(1.0, static_cast<double>(met) / static_cast<double>(all));
}

}  // namespace

double share_that_chooses(const ExpertRouting& routing, std::int64_t experts) {
  if (routing.consecutive) return share_of_runs(routing, experts);
  const bool grouped = routing.groups > 0;
  const std::int64_t groups = grouped ? routing.groups : 1;
  const std::int64_t chosen = grouped ? routing.groups_per_token : 1;
  const std::int64_t each = routing.experts / groups;
  SIM_CHECK(experts > 0 && experts <= routing.experts && chosen > 0 && each > 0, experts, chosen);
  const std::int64_t whole = experts / each, rest = experts % each;
  const std::int64_t partial = rest > 0 ? 1 : 0;
  const double ways = binomial(groups, chosen);
  double missed = 0;
  for (std::int64_t j = 0; j <= std::min(whole, chosen); ++j)
    for (std::int64_t last = 0; last <= partial; ++last) {
      const double weight =
          binomial(whole, j) * binomial(groups - whole - partial, chosen - j - last) / ways;
      missed += weight * misses(chosen * each, j * each + last * rest, routing.per_token);
    }
  return std::clamp(1 - missed, 0.0, 1.0);
}

// Between the blocks that are known, by the logarithm of the ranks.
double imbalance_of(const ExpertRouting& routing, int ranks) {
  if (routing.of_blocks.front() <= 0) return routing.imbalance;
  double before = routing.of_blocks.front();
  for (std::size_t i = 1; i < routing.of_blocks.size(); ++i) {
    const double here = routing.of_blocks[i];
    const double from = std::exp2(static_cast<double>(i) - 1);
    if (ranks <= from || here <= 0) return before;
    if (ranks <= 2 * from) return before + (here - before) * std::log2(ranks / from);
    before = here;
  }
  return before;
}

}  // namespace sim
