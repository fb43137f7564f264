// A forecast and a recorded run of the same step, side by side: lanes in pairs, operators matched,
// sums by operator. Pure: no Qt.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/timeline/compare.hpp"
#include "sim/timeline/traced.hpp"
#include "ui/lanes/lanes.hpp"

namespace ui {

using RecordPtr = std::shared_ptr<const sim::Record>;

// An operator of one side: the forecast (0) or the run (1).
struct OverlayAt {
  std::size_t pair = 0;  // of Overlay::shown
  int side = 0;
  std::uint32_t op = 0;
  bool operator==(const OverlayAt&) const = default;
};

struct Overlay {
  static constexpr std::size_t most_pairs = 32;  // that are drawn

  bool traced = false;  // the run is a profiler's trace: `run` is a record of its kernels alone
  RecordPtr forecast, run;
  sim::Comparison comparison;  // a: the forecast, b: the run
  sim::RecordMatch match;
  std::size_t shown = 0;  // the first so many of match.tracks
  // Groups 2 i and 2 i + 1 are the two sides of pair i; LaneGroup::track is their place here.
  Lanes lanes;

  const sim::Program& program(const OverlayAt& at) const;
  const sim::Span& span(const OverlayAt& at) const;
  // The same operator on the other side, of several kernels the first; nothing: it is on one side
  // only.
  std::optional<OverlayAt> other(const OverlayAt& at) const;
  // The longest of the run's operators of that name and pass that are shown, else the forecast's.
  std::optional<OverlayAt> find(const std::string& name, sim::Pass pass) const;
};
using OverlayPtr = std::shared_ptr<const Overlay>;

OverlayPtr make_overlay(RecordPtr forecast, RecordPtr run);

// The same of a profiler's trace: each kernel is an operator of the run, of the pass of the
// forecast's operator that it belongs to. Kernels that overlap are in lanes of their own. Whether
// it is the same work is not known.
OverlayPtr make_overlay(RecordPtr forecast, const sim::TracedTimeline& measured);

// How times of the run are put on the forecast's axis: shown = offset + scale * time.
struct TimeMap {
  double offset = 0, scale = 1;
  double shown(double time) const { return offset + scale * time; }
  double time(double shown) const { return (shown - offset) / scale; }
};

}  // namespace ui
