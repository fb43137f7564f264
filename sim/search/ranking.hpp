// The result of a search, from a set of evaluations: in any order, the same.
#pragma once

#include <optional>
#include <vector>

#include "sim/search/evaluate.hpp"

namespace sim {

// Memory is told apart in eighths of the device: finer, a front would list layouts that nobody
// would choose between.
inline constexpr int memory_classes = 8;

class Ranking {
 public:
  Ranking(const SearchSpecification& specification, const Candidates& candidates);

  void add(const Evaluation& evaluation);

  // Whether a layout that takes at least `bound` and at least `memory` can still be in the result.
  // Never false for one that is: see README.md.
  bool matters(std::uint32_t index, Duration bound, Bytes memory) const;

  // The fastest that fit, by (step time, index).
  const std::vector<Evaluation>& best() const { return best_; }
  // By memory: each needs less than the one before and is the fastest that needs no more, in
  // eighths of the device; none is slower than the best by more than `front_slowdown`.
  std::vector<Evaluation> memory_front() const;
  // The fastest for each number of GPUs, in the order of the specification.
  std::vector<Evaluation> by_gpus() const;
  // Of those, who are neither slower nor dearer than another: price = GPUs x time.
  std::vector<Evaluation> cost_front() const;
  // Of those that do not fit, the one that misses by least.
  const std::optional<Evaluation>& closest() const { return closest_; }

 private:
  int class_of(Bytes memory) const;  // 1 .. memory_classes
  bool near_best(Duration step_time) const;
  std::size_t gpus_index(std::uint32_t index) const;

  const SearchSpecification& specification_;
  const Candidates& candidates_;
  std::vector<Evaluation> best_;
  std::vector<std::optional<Evaluation>> of_gpus_;
  // The fastest of a class and the classes below it.
  std::vector<std::optional<Evaluation>> up_to_class_;
  std::optional<Evaluation> closest_;
};

}  // namespace sim
