// With weights w of experts and e_k(S) the sum over all sets of k in S of the products of their
// weights, an expert i is chosen by a share of the tokens
//   p_i = w_i e_(k-1)(all but i) / e_k(all)
// which is k load_i / n. The weights follow from it by iteration (Chen, Dempster & Liu 1994,
// "Weighted finite population sampling to maximize entropy", Biometrika 81(3), theorem 1 and
// equation 12). A set of experts is missed, or dropped from, by
//   e_k(all, with w_i times the dropped share for those of the set) / e_k(all)
// Sums e_0 to e_k are the coefficients of the product of all (1 + w_i z).
#include "sim/program/uneven_choice.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/check.hpp"

namespace sim {
namespace {

constexpr int most_iterations = 60;
constexpr double exact_enough = 1e-7;
// No expert is chosen by every token, else its weight would be infinite.
constexpr double most_likely = 1 - 1e-9;

using Sums = std::vector<double>;  // e_0 ... e_k

Sums one(std::int64_t k) {
  Sums sums(static_cast<std::size_t>(k) + 1, 0.0);
  sums[0] = 1;
  return sums;
}

void add(Sums& sums, double weight) {
  for (std::size_t j = sums.size() - 1; j > 0; --j)
    sums[j] += weight * sums[j - 1];
}

// The coefficient `k` of the product of two.
double joined(const Sums& a, const Sums& b, std::size_t k) {
  double sum = 0;
  for (std::size_t j = 0; j <= k; ++j)
    sum += a[j] * b[k - j];
  return sum;
}

Sums times(const Sums& a, const Sums& b) {
  Sums made(a.size());
  for (std::size_t k = 0; k < made.size(); ++k)
    made[k] = joined(a, b, k);
  return made;
}

// The products of all factors before each one, and of all behind it.
struct Around {
  std::vector<Sums> before, behind;
  explicit Around(const std::vector<Sums>& factors, const Sums& unit) {
    before.assign(factors.size() + 1, unit);
    behind = before;
    for (std::size_t i = 0; i < factors.size(); ++i)
      before[i + 1] = times(before[i], factors[i]);
    for (std::size_t i = factors.size(); i > 0; --i)
      behind[i - 1] = times(factors[i - 1], behind[i]);
  }
};

// The same for factors of one expert, which are short.
struct AroundExperts {
  std::vector<Sums> before, behind;
  AroundExperts(const std::vector<double>& weights, const Sums& unit) {
    before.assign(weights.size() + 1, unit);
    behind = before;
    for (std::size_t i = 0; i < weights.size(); ++i)
      add(before[i + 1] = before[i], weights[i]);
    for (std::size_t i = weights.size(); i > 0; --i)
      add(behind[i - 1] = behind[i], weights[i - 1]);
  }
};

// Any multiple of the weights is as good: of mean 1 they stay within range.
void scale(std::vector<double>& weights) {
  double sum = 0;
  for (const double weight : weights)
    sum += weight;
  for (double& weight : weights)
    weight *= static_cast<double>(weights.size()) / sum;
}

std::vector<double> weights_of(const std::vector<double>& chosen, std::int64_t k) {
  std::vector<double> weights;
  for (const double share : chosen)
    weights.push_back(share / (1 - share));
  scale(weights);
  for (int round = 0; round < most_iterations; ++round) {
    const AroundExperts around{weights, one(k)};
    const auto last = static_cast<std::size_t>(k);
    const double all = around.before.back()[last];
    double worst = 0;
    std::vector<double> next(weights.size(), 0.0);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double others = joined(around.before[i], around.behind[i + 1], last - 1) / all;
      if (chosen[i] <= 0) continue;
      worst = std::max(worst, std::abs(weights[i] * others / chosen[i] - 1));
      next[i] = chosen[i] / others;
    }
    if (worst < exact_enough) break;
    scale(next);
    weights = std::move(next);
  }
  return weights;
}

}  // namespace

UnevenChoice::UnevenChoice(const std::vector<double>& load, std::int64_t per_token,
                           std::vector<double> kept)
    : per_token_{per_token}, kept_{std::move(kept)} {
  const auto experts = static_cast<double>(load.size());
  SIM_CHECK(per_token > 0 && per_token <= static_cast<std::int64_t>(load.size()), per_token);
  std::vector<double> chosen;
  for (const double each : load)
    chosen.push_back(std::min(most_likely, each * static_cast<double>(per_token) / experts));
  weights_ = per_token == static_cast<std::int64_t>(load.size())
                 ? std::vector<double>(load.size(), 1.0)
                 : weights_of(chosen, per_token);
}

std::vector<double> UnevenChoice::shares_of_blocks(std::int64_t size) const {
  const auto each = static_cast<std::size_t>(size);
  SIM_CHECK(size > 0 && weights_.size() % each == 0, size, weights_.size());
  std::vector<Sums> blocks, dropped;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (i % each == 0) {
      blocks.push_back(one(per_token_));
      dropped.push_back(one(per_token_));
    }
    add(blocks.back(), weights_[i]);
    if (!kept_.empty()) add(dropped.back(), weights_[i] * (1 - kept_[i]));
  }
  const Around around{blocks, one(per_token_)};
  const auto last = static_cast<std::size_t>(per_token_);
  const double all = around.before.back()[last];
  std::vector<double> shares;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Sums others = times(around.before[b], around.behind[b + 1]);
    shares.push_back(std::clamp(1 - joined(others, dropped[b], last) / all, 0.0, 1.0));
  }
  return shares;
}

}  // namespace sim
