#include <fmt/format.h>

#include <algorithm>

#include "sim/model/transformer.hpp"

namespace sim {

bool set_expert_layers(Experts& experts, const std::vector<bool>& pattern) {
  const auto first = std::find(pattern.begin(), pattern.end(), true);
  if (first == pattern.end()) return false;
  const auto second = std::find(first + 1, pattern.end(), true);
  experts.first_layer = first - pattern.begin();
  experts.every = second - first;
  for (std::size_t layer = 0; layer < pattern.size(); ++layer)
    if (experts.in_layer(static_cast<std::int64_t>(layer)) != pattern[layer]) return false;
  return true;
}

std::string expert_groups_problem(const Experts& experts) {
  const std::int64_t groups = experts.groups, chosen = experts.groups_per_token;
  if (groups == 0 && chosen == 0) return {};
  if (groups < 1 || experts.count % groups != 0)
    return fmt::format("{} groups do not divide {} experts", groups, experts.count);
  if (chosen < 1 || chosen > groups)
    return fmt::format("{} groups for each token; there are {}", chosen, groups);
  const std::int64_t among = experts.count / groups * chosen;
  if (experts.per_token > among)
    return fmt::format("{} experts for each token; its {} of {} groups have {}", experts.per_token,
                       chosen, groups, among);
  return {};
}

std::string experts_problem(const TransformerShape& shape) {
  const Experts& experts = shape.experts;
  if (experts.per_token > experts.count)
    return fmt::format("{} experts for each token; there are {}", experts.per_token, experts.count);
  const double features =
      static_cast<double>(experts.count) * static_cast<double>(experts.feed_forward) +
      static_cast<double>(experts.shared_feed_forward);
  const double parameters =
      3 * static_cast<double>(shape.layers) * static_cast<double>(shape.hidden) * features;
  constexpr double most = 1e18;
  if (parameters <= most) return {};
  return fmt::format("the experts have {:.1e} parameters; allowed: up to {:.0e}", parameters, most);
}

}  // namespace sim
