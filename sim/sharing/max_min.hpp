// Max-min fair shares in integers.
//
// Activities compete for resources. Activity a consists of n_a equal flows and asks for a level
// x_a, at most cap_a; on resource r it uses weight_ar * x_a. Progressive filling (Bertsekas &
// Gallager, Data Networks, 6.5.2) of the flows, x_a / n_a: all rise together; an activity stops at
// its cap or when one of its resources is full:
//
//   sum over a of weight_ar * x_a <= capacity_r,   0 <= x_a <= cap_a,   x / n max-min fair
//
// Everything is integer and every round freezes all ties at once, so the result depends neither on
// the order of the activities nor on how often equal ones are repeated: k equal activities of
// weight w and one of weight k * w get the same level. Symmetry folding rests on this. Flows rise
// by exact fractions, and only levels are rounded: a resource that binds nobody could otherwise
// stop a flow just below its cap, and would matter by being looked at.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sim {

__extension__ using WideInt = __int128;  // sums of weight * level exceed 64 bits

struct ResourceUse {
  std::uint32_t resource = 0;
  std::uint64_t weight = 0;
};

struct MaxMinProblem {
  std::vector<std::int64_t> caps;        // one per activity
  std::vector<std::int64_t> flows;       // one per activity, at least 1
  std::vector<std::uint32_t> first_use;  // one per activity + 1: offsets into `uses`
  std::vector<ResourceUse> uses;
  std::vector<WideInt> capacities;  // one per resource, in weight * level
  void clear();
};

// Levels, one per activity. Levels are rounded down; a resource is never used above capacity.
class MaxMinSolver {
 public:
  std::span<const std::int64_t> solve(const MaxMinProblem& problem);

 private:
  struct FlowLevel {  // whole + part / of; beyond all that is asked for where nothing limits it
    std::int64_t whole = std::numeric_limits<std::int64_t>::max();
    std::int64_t part = 0;
    std::int64_t of = 1;
    bool operator<(const FlowLevel& other) const;
    bool operator==(const FlowLevel& other) const;
    std::int64_t times(std::int64_t flows, std::int64_t cap) const;
  };
  FlowLevel lowest_bottleneck(const MaxMinProblem& problem);
  void find_stopping(const MaxMinProblem& problem, const FlowLevel& level);
  void freeze(const MaxMinProblem& problem, std::uint32_t activity, std::int64_t level);

  std::vector<std::int64_t> levels_;
  std::vector<std::uint32_t> open_;        // activities that still rise
  std::vector<std::uint32_t> stopping_;    // those of them that stop in this round
  std::vector<WideInt> left_;              // of each resource
  std::vector<std::int64_t> open_weight_;  // weight * flows of what still rises
  std::vector<FlowLevel> bottleneck_;      // at which the resource is full
};

}  // namespace sim
