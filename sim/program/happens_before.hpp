// Which operators of a program are known to be done before another starts, by streams and
// dependencies alone: vector clocks (Mattern 1989) with a component per stream.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/program/program.hpp"

namespace sim {

class HappensBefore {
 public:
  // For each stream, one more than the last operator of it that is known to be done; 0: none.
  using Clock = std::array<std::uint32_t, stream_count>;

  explicit HappensBefore(const Program& program);

  // The operators of each stream that are done when `op` starts.
  const Clock& before(OpId op) const { return before_[op.value]; }
  // Whether `first` is done when `second` starts.
  bool ordered(OpId first, OpId second) const {
    return before_[second.value][stream_of(first)] > first.value;
  }
  // Whether all that `done` stands for is done when `op` starts.
  bool ordered(const Clock& done, OpId op) const {
    for (std::size_t stream = 0; stream < stream_count; ++stream) {
      if (done[stream] > before_[op.value][stream]) return false;
    }
    return true;
  }
  std::size_t stream_of(OpId op) const { return static_cast<std::size_t>(streams_[op.value]); }

 private:
  const std::vector<Stream>& streams_;
  std::vector<Clock> before_;
};

}  // namespace sim
