// Why a device was idle: what its host did meanwhile.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/explain/states.hpp"

namespace sim {

// The spans of a rank's host that tell why a device is idle.
class HostTroubles {
 public:
  HostTroubles(const TracedRun& run, const RunRank& rank);

  // add_gap() appends the states of an idle interval, in order and without a gap. `next`: the
  // activity that ends it, not_told at the end of the trace.
  void add_gap(TimePoint begin, TimePoint end, std::int32_t next,
               std::vector<StateSpan>& states) const;

 private:
  struct Interval {
    TimePoint begin, end;
  };
  // Disjoint, ascending.
  static std::vector<Interval> merged(std::vector<Interval> intervals);
  static const Interval* covering(const std::vector<Interval>& of, TimePoint at);
  static TimePoint next_begin(const std::vector<Interval>& of, TimePoint at, TimePoint end);

  const RunRank& rank_;
  const bool on_host_;
  std::vector<Interval> garbage_, loading_, waiting_;
};

}  // namespace sim
