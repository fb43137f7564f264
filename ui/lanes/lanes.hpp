// A timeline as lanes: for each shown rank one for computation and one per kind of communication,
// as plain arrays that a painter can go over fast. Pure: no Qt.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/timeline/ink.hpp"
#include "sim/timeline/record.hpp"
#include "sim/timeline/timeline.hpp"

namespace ui {

// Spans of one stream of one rank: ascending, never overlapping. Times in picoseconds.
struct Strip {
  sim::Stream stream = sim::Stream::compute;
  std::vector<std::int64_t> arrive;  // of communication: when the rank came; else as begin
  std::vector<std::int64_t> begin, end;
  std::vector<std::uint8_t> ink;  // sim::Ink
  std::vector<std::uint32_t> op;  // index into the track's program
  // sums[i][ink]: time of that ink in spans 0 .. i * block - 1.
  static constexpr std::size_t block = 16;
  std::vector<std::array<std::int64_t, sim::ink_count>> sums;

  std::size_t size() const { return begin.size(); }
  void sum_blocks();  // fills `sums` from the rest
  // The first span that ends after `time`.
  std::size_t first_ending_after(std::int64_t time) const;
};

struct Idle {
  std::int64_t begin = 0, end = 0;
};

// One rank: what it stands for, and its strips.
struct LaneGroup {
  std::uint32_t track = 0;  // index into Timeline::tracks
  sim::RankId rank{};
  int stage = 0;
  std::uint32_t represents = 1;           // ranks that behave exactly like it
  const sim::Program* program = nullptr;  // of the plan or the record, which outlives the lanes
  Strip compute;
  std::vector<Strip> communication;  // one per stream that is used
  std::vector<Idle> bubbles;         // ascending: see sim::Breakdown
};

struct Lanes {
  std::vector<LaneGroup> groups;
  std::int64_t end = 0;   // of the step
  std::size_t spans = 0;  // in all
};

// REQUIRES: `timeline` has a track of each of `ranks`. The lanes refer to the plan.
Lanes make_lanes(const sim::Plan& plan, const sim::Timeline& timeline,
                 const std::vector<sim::RankId>& ranks);

// One track of a record, by its index. The group refers to the record.
LaneGroup make_lane_group(const sim::Record& record, std::uint32_t track);

// Time of each ink between two instants, over one strip.
using InkTimes = std::array<std::int64_t, sim::ink_count>;
InkTimes ink_times(const Strip& strip, std::int64_t from, std::int64_t to);

}  // namespace ui
