// Max-min fair shares in integers.
//
// Activities compete for resources. Activity a asks for a level x_a, at most cap_a; on resource r
// it uses weight_ar * x_a. Progressive filling (Bertsekas & Gallager, Data Networks, 6.5.2): all
// levels rise together; an activity stops at its cap or when one of its resources is full:
//
//   sum over a of weight_ar * x_a <= capacity_r,   0 <= x_a <= cap_a,   x max-min fair
//
// Everything is integer and every round freezes all ties at once, so the result depends neither on
// the order of the activities nor on how often equal ones are repeated: k equal activities of
// weight w and one of weight k * w get the same level. Symmetry folding rests on this.
#pragma once

#include <cstdint>
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
  std::int64_t lowest_bottleneck(const MaxMinProblem& problem) const;
  void freeze(const MaxMinProblem& problem, std::uint32_t activity, std::int64_t level);

  std::vector<std::int64_t> levels_;
  std::vector<char> frozen_;
  std::vector<WideInt> left_;
  std::vector<std::int64_t> open_weight_;
};

}  // namespace sim
