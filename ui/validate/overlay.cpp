#include "ui/validate/overlay.hpp"

#include <algorithm>
#include <utility>

namespace ui {
namespace {

const sim::RecordedTrack& track_of(const Overlay& overlay, const OverlayAt& at) {
  const sim::TrackMatch& match = overlay.match.tracks[at.pair];
  return at.side == 0 ? overlay.forecast->tracks[match.a] : overlay.run->tracks[match.b];
}

}  // namespace

const sim::Program& Overlay::program(const OverlayAt& at) const {
  const sim::Record& record = at.side == 0 ? *forecast : *run;
  return record.programs[track_of(*this, at).program];
}

const sim::Span& Overlay::span(const OverlayAt& at) const {
  return track_of(*this, at).spans[at.op];
}

std::optional<OverlayAt> Overlay::other(const OverlayAt& at) const {
  const sim::TrackMatch& tracks = match.tracks[at.pair];
  const std::uint32_t op = (at.side == 0 ? tracks.in_b : tracks.in_a)[at.op];
  if (op == sim::no_operator) return std::nullopt;
  return OverlayAt{at.pair, 1 - at.side, op};
}

std::optional<OverlayAt> Overlay::find(const std::string& name, sim::Pass pass) const {
  std::optional<OverlayAt> longest;
  for (const int side : {1, 0}) {
    sim::Duration most{-1};
    for (std::size_t pair = 0; pair < shown; ++pair) {
      const sim::RecordedTrack& track = track_of(*this, {pair, side, 0});
      const sim::Program& of = program({pair, side, 0});
      for (const sim::Span& candidate : track.spans) {
        const sim::Duration time = candidate.end - candidate.active;
        if (time <= most || of.pass[candidate.op.value] != pass || of.name(candidate.op) != name)
          continue;
        most = time;
        longest = OverlayAt{pair, side, candidate.op.value};
      }
    }
    if (longest) break;
  }
  return longest;
}

OverlayPtr make_overlay(RecordPtr forecast, RecordPtr run) {
  auto overlay = std::make_shared<Overlay>();
  overlay->comparison = sim::compare(*forecast, *run);
  overlay->match = sim::match_operators(*forecast, *run);
  overlay->shown = std::min(Overlay::most_pairs, overlay->match.tracks.size());
  for (std::size_t pair = 0; pair < overlay->shown; ++pair) {
    const sim::TrackMatch& match = overlay->match.tracks[pair];
    for (LaneGroup group : {make_lane_group(*forecast, match.a), make_lane_group(*run, match.b)}) {
      group.track = static_cast<std::uint32_t>(overlay->lanes.groups.size());
      overlay->lanes.groups.push_back(std::move(group));
    }
    overlay->lanes.spans +=
        forecast->tracks[match.a].spans.size() + run->tracks[match.b].spans.size();
  }
  overlay->lanes.end = std::max(forecast->end, run->end).time_since_epoch().count();
  overlay->forecast = std::move(forecast);
  overlay->run = std::move(run);
  return overlay;
}

}  // namespace ui
