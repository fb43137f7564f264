#include "sim/search/balanced_split.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sim {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

class Partition {
 public:
  explicit Partition(const SplitProblem& problem)
      : problem_{problem},
        layers_{problem.layers.front().size()},
        chunks_{problem.alive.size()},
        longest_(chunks_ + 1, std::vector<std::int64_t>(layers_ + 1, never)),
        squares_(chunks_ + 1, std::vector<double>(layers_ + 1, beyond)) {}

  std::vector<int> run() {
    find_longest();
    if (longest_[0][0] == never) return {};
    find_squares(longest_[0][0]);
    return read_off(longest_[0][0]);
  }

 private:
  static constexpr double beyond = std::numeric_limits<double>::infinity();

  // The chunk of `count` layers from `first` on grows layer by layer; `take` gets its count and
  // time where it is within the memory.
  template <class Take>
  void for_chunks(std::size_t chunk, std::size_t first, Take take) const {
    ChunkLoad load;
    const bool is_first = chunk == 0, is_last = chunk + 1 == chunks_;
    if (is_first) load += problem_.input;
    if (is_last) load += problem_.output;
    const std::int64_t memory =
        problem_.memories.empty() ? problem_.memory : problem_.memories[chunk];
    const bool may_be_empty = (is_first && problem_.has_input) || (is_last && problem_.has_output);
    for (std::size_t count = 0; first + count <= layers_; ++count) {
      if (count > 0) {
        const std::size_t place = std::min(count - 1, problem_.layers.size() - 1);
        load += problem_.layers[place][first + count - 1];
      }
      if (load.states + load.held * problem_.alive[chunk] > memory) return;
      if (count > 0 || may_be_empty) take(count, on_device(chunk, load.time));
    }
  }

  std::int64_t on_device(std::size_t chunk, std::int64_t time) const {
    if (problem_.slowness.empty()) return time;
    return std::llround(static_cast<double>(time) * problem_.slowness[chunk]);
  }

  // longest_[c][i]: of the chunks from c on with the layers from i on, the least longest.
  void find_longest() {
    longest_[chunks_][layers_] = 0;
    for (std::size_t chunk = chunks_; chunk-- > 0;)
      for (std::size_t first = 0; first <= layers_; ++first)
        for_chunks(chunk, first, [&](std::size_t count, std::int64_t time) {
          const std::int64_t rest = longest_[chunk + 1][first + count];
          if (rest != never)
            longest_[chunk][first] = std::min(longest_[chunk][first], std::max(time, rest));
        });
  }

  static double square(std::int64_t time) {
    return static_cast<double>(time) * static_cast<double>(time);
  }

  // The same of the sum of squares, of chunks that take no longer than `most`.
  void find_squares(std::int64_t most) {
    squares_[chunks_][layers_] = 0;
    for (std::size_t chunk = chunks_; chunk-- > 0;)
      for (std::size_t first = 0; first <= layers_; ++first)
        for_chunks(chunk, first, [&](std::size_t count, std::int64_t time) {
          if (time <= most)
            squares_[chunk][first] =
                std::min(squares_[chunk][first], square(time) + squares_[chunk + 1][first + count]);
        });
  }

  std::vector<int> read_off(std::int64_t most) const {
    std::vector<int> split;
    std::size_t first = 0;
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      std::size_t chosen = layers_ + 1;
      for_chunks(chunk, first, [&](std::size_t count, std::int64_t time) {
        if (chosen > layers_ && time <= most &&
            square(time) + squares_[chunk + 1][first + count] == squares_[chunk][first])
          chosen = count;
      });
      split.push_back(static_cast<int>(chosen));
      first += chosen;
    }
    return split;
  }

  const SplitProblem& problem_;
  std::size_t layers_, chunks_;
  std::vector<std::vector<std::int64_t>> longest_;
  std::vector<std::vector<double>> squares_;
};

}  // namespace

std::vector<int> balanced_split(const SplitProblem& problem) {
  return Partition{problem}.run();
}

}  // namespace sim
