// Where the time of a rank goes.
//
// Every picosecond of the step, on one rank, belongs to the first of these that holds then:
//   compute           the compute stream runs a kernel
//   exposed_tensor    a collective of a tensor group is under way, or waits for its partners
//   exposed_context   the same of a context group
//   exposed_expert    the same of a group that shares experts, or an expert
//   exposed_data      a collective of another group (data, shard, replicate, tied embedding, world)
//                     is under way; or one of a single stage waits for its partners
//   exposed_pipeline  a send or a receive is under way: both sides have arrived
//   bubble            with pipeline stages: a send or a receive waits for the other side, a
//                     collective over several stages (tied embedding, world) waits for them, or the
//                     rank's last operator is done
//   exposed_data      without pipeline stages, the same: the wait for slower ranks
//   host              nothing runs and nothing waits: the host has yet to issue, or
//                     updates offloaded states, or copies
// So the parts are disjoint and sum to the step exactly, in integer picoseconds. Communication that
// runs beside a kernel counts as compute: it is hidden.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

struct Breakdown {
  Duration compute{};
  Duration exposed_tensor{};
  Duration exposed_context{};
  Duration exposed_expert{};
  Duration exposed_data{};
  Duration exposed_pipeline{};
  Duration bubble{};
  Duration host{};
  // Communication of activations within layers.
  Duration exposed_within_layers() const {
    return exposed_tensor + exposed_context + exposed_expert;
  }
  Duration exposed() const { return exposed_within_layers() + exposed_data + exposed_pipeline; }
  Duration total() const { return compute + exposed() + bubble + host; }
  bool operator==(const Breakdown&) const = default;
};

struct Interval {
  TimePoint begin;
  TimePoint end;
};

// REQUIRES: `track.spans` has one span per operator of `program`, in issue order; the spans of one
// stream do not overlap; none ends after `end`.
Breakdown break_down(const RankTrack& track, const Program& program, TimePoint end,
                     bool has_pipeline);

// When one part holds: ascending, disjoint; they sum to that part of break_down(). REQUIRES: as
// break_down().
std::vector<Interval> intervals_of(Duration Breakdown::*part, const RankTrack& track,
                                   const Program& program, TimePoint end, bool has_pipeline);

// The mean of breakdowns of equal totals, weighted; rounded so that it has that total exactly.
Breakdown weighted_mean(std::span<const std::pair<Breakdown, std::uint64_t>> parts);

}  // namespace sim
