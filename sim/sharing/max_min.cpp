#include "sim/sharing/max_min.hpp"

#include <algorithm>
#include <limits>

namespace sim {

void MaxMinProblem::clear() {
  caps.clear();
  first_use.assign(1, 0);
  uses.clear();
  capacities.clear();
}

std::int64_t MaxMinSolver::lowest_bottleneck(const MaxMinProblem& problem) const {
  std::int64_t lowest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t r = 0; r < problem.capacities.size(); ++r)
    if (open_weight_[r] > 0)
      lowest = static_cast<std::int64_t>(std::min<WideInt>(lowest, left_[r] / open_weight_[r]));
  return lowest;
}

void MaxMinSolver::freeze(const MaxMinProblem& problem, std::uint32_t activity,
                          std::int64_t level) {
  frozen_[activity] = 1;
  levels_[activity] = level;
  for (std::uint32_t u = problem.first_use[activity]; u < problem.first_use[activity + 1]; ++u) {
    const ResourceUse use = problem.uses[u];
    left_[use.resource] -= static_cast<WideInt>(use.weight) * level;
    open_weight_[use.resource] -= static_cast<std::int64_t>(use.weight);
  }
}

std::span<const std::int64_t> MaxMinSolver::solve(const MaxMinProblem& problem) {
  const auto count = static_cast<std::uint32_t>(problem.caps.size());
  levels_.assign(count, 0);
  frozen_.assign(count, 0);
  left_ = problem.capacities;
  open_weight_.assign(problem.capacities.size(), 0);
  for (const ResourceUse& use : problem.uses)
    open_weight_[use.resource] += static_cast<std::int64_t>(use.weight);

  std::vector<std::uint32_t> stopping;
  for (std::uint32_t open = count; open > 0; open -= static_cast<std::uint32_t>(stopping.size())) {
    const std::int64_t level = lowest_bottleneck(problem);
    stopping.clear();
    for (std::uint32_t a = 0; a < count; ++a)
      if (!frozen_[a] && problem.caps[a] <= level) stopping.push_back(a);
    if (!stopping.empty()) {
      for (const std::uint32_t a : stopping)
        freeze(problem, a, problem.caps[a]);
      continue;
    }
    // No cap is reached: everything on a resource that is full at this level stops here. The set
    // is complete before the first freeze, because freezing changes what is left.
    const auto full = [&](const ResourceUse& use) {
      return left_[use.resource] / open_weight_[use.resource] == level;
    };
    for (std::uint32_t a = 0; a < count; ++a) {
      if (frozen_[a]) continue;
      const auto* first = problem.uses.data() + problem.first_use[a];
      const auto* last = problem.uses.data() + problem.first_use[a + 1];
      if (std::any_of(first, last, full)) stopping.push_back(a);
    }
    for (const std::uint32_t a : stopping)
      freeze(problem, a, level);
  }
  return levels_;
}

}  // namespace sim
