// The longest path through a run of operators of one program: what they take at least, whatever
// goes on around them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/program/program.hpp"
#include "sim/search/costs/overlaps.hpp"

namespace sim {

// Times in ps after the end of the last kernel before the run.
struct Walk {
  static constexpr std::int64_t unknown = INT64_MIN / 4;  // nothing says when it is done
  std::int64_t first_kernel = 0;                          // begins
  std::int64_t last_kernel = 0;                           // ends; 0 without a kernel
  std::vector<std::int64_t> ends;                         // by operator of the run
};

// Operators first .. last - 1 in issue order, those of `skipped` streams (a bit mask) left out.
// Streams run in order, an operator waits for its dependencies; one outside the run says nothing,
// but for the last kernel before it, which ends at 0. `time_of` gives an operator's least time,
// `overlaps` what kernels lose in it to communication beside them.
template <class TimeOf>
Walk walk(const Program& program, std::uint32_t first, std::uint32_t last, std::uint32_t skipped,
          TimeOf time_of, std::span<const ForcedOverlap> overlaps = {}) {
  constexpr auto compute = static_cast<std::size_t>(Stream::compute);
  std::uint32_t before = UINT32_MAX;  // the last kernel before the run
  for (std::uint32_t op = first; op-- > 0 && before == UINT32_MAX;)
    if (program.stream[op] == Stream::compute) before = op;
  std::array<std::int64_t, stream_count> free{};
  free.fill(Walk::unknown);
  free[compute] = 0;
  Walk made;
  made.ends.assign(last - first, Walk::unknown);
  bool any_kernel = false;
  for (std::uint32_t op = first; op < last; ++op) {
    const auto stream = static_cast<std::size_t>(program.stream[op]);
    if (skipped >> stream & 1U) continue;
    std::int64_t start = free[stream];
    for (const OpId dependency : program.dependencies({op})) {
      if (dependency.value >= first)
        start = std::max(start, made.ends[dependency.value - first]);
      else if (dependency.value == before)
        start = std::max(start, std::int64_t{0});
    }
    for (; !overlaps.empty() && overlaps.front().before <= op; overlaps = overlaps.subspan(1)) {
      const ForcedOverlap& overlap = overlaps.front();
      start = std::max(start, made.ends[overlap.after - first] + overlap.kernels + overlap.loss);
    }
    if (stream == compute && !std::exchange(any_kernel, true)) made.first_kernel = start;
    const std::int64_t end = start == Walk::unknown ? Walk::unknown : start + time_of(op);
    free[stream] = made.ends[op - first] = end;
  }
  made.last_kernel = free[compute];
  return made;
}

}  // namespace sim
