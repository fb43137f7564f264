#include "sim/sharing/max_min.hpp"

#include <algorithm>
#include <limits>

namespace sim {

void MaxMinProblem::clear() {
  caps.clear();
  flows.clear();
  first_use.assign(1, 0);
  uses.clear();
  capacities.clear();
}

bool MaxMinSolver::FlowLevel::operator<(const FlowLevel& other) const {
  if (whole != other.whole) return whole < other.whole;
  return static_cast<WideInt>(part) * other.of < static_cast<WideInt>(other.part) * of;
}

bool MaxMinSolver::FlowLevel::operator==(const FlowLevel& other) const {
  return !(*this < other) && !(other < *this);
}

// The rate of an activity with so many flows that have risen to this level, at most `cap`.
std::int64_t MaxMinSolver::FlowLevel::times(std::int64_t flows, std::int64_t cap) const {
  WideInt level = static_cast<WideInt>(whole) * flows;
  if (part != 0 && flows != 1) level += static_cast<WideInt>(part) * flows / of;
  return level < cap ? static_cast<std::int64_t>(level) : cap;
}

MaxMinSolver::FlowLevel MaxMinSolver::lowest_bottleneck(const MaxMinProblem& problem) {
  FlowLevel lowest;
  for (std::size_t r = 0; r < problem.capacities.size(); ++r) {
    FlowLevel& level = bottleneck_[r];
    level = {};
    if (open_weight_[r] == 0) continue;
    const WideInt whole = left_[r] / open_weight_[r];
    if (whole >= level.whole) continue;
    level = {.whole = static_cast<std::int64_t>(whole),
             .part = static_cast<std::int64_t>(left_[r] - whole * open_weight_[r]),
             .of = open_weight_[r]};
    if (level < lowest) lowest = level;
  }
  return lowest;
}

void MaxMinSolver::freeze(const MaxMinProblem& problem, std::uint32_t activity,
                          std::int64_t level) {
  levels_[activity] = level;
  const std::int64_t flows = problem.flows[activity];
  for (std::uint32_t u = problem.first_use[activity]; u < problem.first_use[activity + 1]; ++u) {
    const ResourceUse use = problem.uses[u];
    left_[use.resource] -= static_cast<WideInt>(use.weight) * level;
    open_weight_[use.resource] -= static_cast<std::int64_t>(use.weight) * flows;
  }
}

// Finds the activities that stop: those that reach their cap; if none does, everything on a
// resource that is full at this level. The set is complete before the first freeze, because
// freezing changes what is left.
void MaxMinSolver::find_stopping(const MaxMinProblem& problem, const FlowLevel& level) {
  stopping_.clear();
  for (const std::uint32_t a : open_)
    if (level.times(problem.flows[a], problem.caps[a]) == problem.caps[a]) stopping_.push_back(a);
  if (!stopping_.empty()) return;
  const auto full = [&](const ResourceUse& use) { return bottleneck_[use.resource] == level; };
  for (const std::uint32_t a : open_) {
    const auto* first = problem.uses.data() + problem.first_use[a];
    const auto* last = problem.uses.data() + problem.first_use[a + 1];
    if (std::any_of(first, last, full)) stopping_.push_back(a);
  }
}

std::span<const std::int64_t> MaxMinSolver::solve(const MaxMinProblem& problem) {
  const auto count = static_cast<std::uint32_t>(problem.caps.size());
  levels_.assign(count, -1);
  left_ = problem.capacities;
  open_weight_.assign(problem.capacities.size(), 0);
  bottleneck_.resize(problem.capacities.size());
  open_.clear();
  for (std::uint32_t a = 0; a < count; ++a) {
    open_.push_back(a);
    for (std::uint32_t u = problem.first_use[a]; u < problem.first_use[a + 1]; ++u)
      open_weight_[problem.uses[u].resource] +=
          static_cast<std::int64_t>(problem.uses[u].weight) * problem.flows[a];
  }
  while (!open_.empty()) {
    const FlowLevel level = lowest_bottleneck(problem);
    find_stopping(problem, level);
    for (const std::uint32_t a : stopping_)
      freeze(problem, a, level.times(problem.flows[a], problem.caps[a]));
    std::erase_if(open_, [&](std::uint32_t a) { return levels_[a] >= 0; });
  }
  return levels_;
}

}  // namespace sim
