// The result of a search, from a set of evaluations: in any order, the same.
//
// Layouts that leave the memory margin are ranked; those that fit and do not leave it stand apart,
// and are in the result only where they are faster than all others.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "sim/search/evaluate.hpp"

namespace sim {

// Memory is told apart in eighths of the device: finer, a front would list layouts that nobody
// would choose between.
inline constexpr int memory_classes = 8;

// KindMargin is what layouts of one kind must leave free.
struct KindMargin {
  MemoryError error;  // of the forecast of their memory
  Bytes most;         // that they may need
};

class Ranking {
 public:
  Ranking(const SearchSpecification& specification, const Candidates& candidates);

  void add(const Evaluation& evaluation);

  // The longest that a layout which needs at least `memory` can take and still be in the result:
  // see BOUNDS.md. It only falls.
  Duration limit(std::uint32_t index, Bytes memory) const;
  // Whether a layout that takes at least `bound` and at least `memory` can still be in the result.
  bool matters(std::uint32_t index, Duration bound, Bytes memory) const {
    return bound <= limit(index, memory);
  }

  // The fastest that leave the margin, by (step time, index). Among those that are equal to
  // the picosecond and the byte on as many GPUs, the first alone.
  const std::vector<Evaluation>& best() const { return best_; }
  // The fastest that fit within the margin and are faster than the best; all, where that is empty.
  std::vector<Evaluation> within_margin() const;
  // The first of best(), else of within_margin(); nothing: no layout fits.
  std::optional<Evaluation> favourite() const;
  bool leaves_margin(const Evaluation& evaluation) const;
  // The margins of the kinds of layouts that the candidates have.
  std::vector<KindMargin> margins() const;
  // memory_front() orders layouts that leave the margin by memory: each needs less than the one
  // before and is the fastest that needs no more, in eighths of the device; none is slower than the
  // best by more than `front_slowdown`.
  std::vector<Evaluation> memory_front() const;
  // The fastest for each number of GPUs, in the order of the specification. Where none leaves the
  // margin, the fastest that fits.
  std::vector<Evaluation> by_gpus() const;
  // cost_front() has those of by_gpus() that are neither slower nor dearer than another: price =
  // GPUs x time.
  std::vector<Evaluation> cost_front() const;
  // closest() is the layout that does not fit whose tensors miss by least.
  const std::optional<Evaluation>& closest() const { return closest_; }

 private:
  int class_of(Bytes memory) const;  // 1 .. memory_classes
  std::size_t kind_of(std::uint32_t index) const;
  Bytes most_of(std::uint32_t index) const { return margins_[kind_of(index)]->most; }
  Duration limit_within(std::uint32_t index) const;
  Duration front_limit() const;
  std::size_t gpus_index(std::uint32_t index) const;

  const SearchSpecification& specification_;
  const Candidates& candidates_;
  // margins_ is indexed by what memory_kinds() asks of a layout and candidates differ in.
  std::array<std::optional<KindMargin>,
             8 * words_of(Schedule{}).size() * words_of(OffloadParts{}).size()>
      margins_{};
  std::vector<Evaluation> best_, within_;
  std::vector<std::optional<Evaluation>> of_gpus_, within_of_gpus_;
  // The fastest of a class and the classes below it.
  std::vector<std::optional<Evaluation>> up_to_class_;
  std::optional<Evaluation> closest_;
};

}  // namespace sim
