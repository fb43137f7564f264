#include "sim/infer/observed_work.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace sim {
namespace {

struct CountedProduct {
  Product product;
  std::size_t first = 0;  // among all products of the step, in order
  std::int64_t count = 0;
  double flops() const {
    return 2.0 * static_cast<double>(product.m) * static_cast<double>(product.n) *
           static_cast<double>(product.k) * static_cast<double>(count);
  }
};

// Those of one step. A product may be several kernels of one operator: it counts once.
std::vector<CountedProduct> products_of_step(const RunRank& rank, const RankSteps& steps,
                                             std::size_t step) {
  std::map<std::int32_t, CountedProduct> counted;
  std::set<std::int32_t> issuers;
  std::size_t place = 0;
  for (std::size_t i = 0; i < rank.device.size(); ++i) {
    const DeviceActivity& activity = rank.device[i];
    if (activity.product == not_told || steps.step_of[i] != static_cast<std::int32_t>(step))
      continue;
    if (activity.issuer != not_told && !issuers.insert(activity.issuer).second) continue;
    const Product& product = rank.products[static_cast<std::size_t>(activity.product)];
    if (product.batch != 1) continue;  // of heads or experts
    const auto [at, added] = counted.try_emplace(activity.product);
    if (added) at->second = {.product = product, .first = place};
    ++at->second.count;
    ++place;
  }
  std::vector<CountedProduct> list;
  list.reserve(counted.size());
  for (const auto& [index, entry] : counted)
    list.push_back(entry);
  return list;
}

double flops_of(const std::vector<CountedProduct>& products) {
  double flops = 0;
  for (const CountedProduct& entry : products)
    flops += entry.flops();
  return flops;
}

struct SizeUse {
  double flops = 0;  // of products that have the size
  bool rows = false;
  std::optional<std::size_t> first_depth{};
};

std::int64_t tokens_of(const std::vector<CountedProduct>& products) {
  std::map<std::int64_t, SizeUse> uses;
  for (const CountedProduct& entry : products) {
    const Product& of = entry.product;
    for (const std::int64_t size : std::set{of.m, of.n, of.k})
      uses[size].flops += entry.flops();
    uses[of.m].rows = uses[of.n].rows = true;
    std::optional<std::size_t>& first = uses[of.k].first_depth;
    first = std::min(first.value_or(entry.first), entry.first);
  }
  const auto candidate = [](const SizeUse& use) { return use.rows && use.first_depth; };
  constexpr double nearly_all = 0.98;
  double most = 0;
  for (const auto& [size, use] : uses)
    if (candidate(use)) most = std::max(most, use.flops);
  std::int64_t tokens = 0;
  std::size_t latest = 0;
  for (const auto& [size, use] : uses) {
    if (!candidate(use) || use.flops < nearly_all * most) continue;
    if (tokens != 0 && *use.first_depth <= latest) continue;
    tokens = size;
    latest = *use.first_depth;
  }
  return tokens;
}

using Features = std::pair<std::int64_t, std::int64_t>;

Features ordered(std::int64_t a, std::int64_t b) {
  return {std::min(a, b), std::max(a, b)};
}

// Where the tokens are as many as one of the features, forward products have the tokens as depth,
// too. Of a layer that widens, they and gradients of weights do: 2 of 3 products, 3 of 4 where the
// forward pass runs again. Of one that narrows, 2 of 3, or 2 of 4.
void tell_gradients_apart(ObservedLinear& linear, std::int64_t tokens) {
  if (linear.narrow != tokens && linear.wide != tokens) return;
  linear.all_alike = linear.narrow == linear.wide;
  if (linear.all_alike) {
    linear.gradients = linear.products / 3;
    return;
  }
  const std::int64_t others = linear.products - linear.gradients;
  linear.gradients = linear.gradients > others + others / 2 ? others : others / 2;
}

}  // namespace

std::optional<ObservedWork> observed_work(const RunRank& rank, const RankSteps& steps,
                                          std::size_t step) {
  const std::vector<CountedProduct> products = products_of_step(rank, steps, step);
  ObservedWork work;
  work.tokens = tokens_of(products);
  work.flops = flops_of(products);
  if (work.tokens == 0) return std::nullopt;
  std::map<Features, ObservedLinear> linears;
  for (const CountedProduct& entry : products) {
    const Product& of = entry.product;
    const bool gradient = of.k == work.tokens;
    if (!gradient && of.m != work.tokens && of.n != work.tokens) continue;
    const Features features =
        gradient ? ordered(of.m, of.n) : ordered(of.k, of.m == work.tokens ? of.n : of.m);
    ObservedLinear& linear = linears[features];
    linear.narrow = features.first;
    linear.wide = features.second;
    linear.gradients += gradient ? entry.count : 0;
    linear.products += entry.count;
    linear.flops += entry.flops();
  }
  double covered = 0;
  for (const auto& [features, linear] : linears) {
    covered += linear.flops;
    work.linears.push_back(linear);
    tell_gradients_apart(work.linears.back(), work.tokens);
  }
  work.covered = work.flops > 0 ? covered / work.flops : 0;
  std::stable_sort(
      work.linears.begin(), work.linears.end(),
      [](const ObservedLinear& a, const ObservedLinear& b) { return a.flops > b.flops; });
  return work;
}

}  // namespace sim
