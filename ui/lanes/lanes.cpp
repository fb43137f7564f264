#include "ui/lanes/lanes.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/timeline/breakdown.hpp"

namespace ui {
namespace {

std::int64_t ps(sim::TimePoint time) {
  return time.time_since_epoch().count();
}

void add(Strip& strip, const sim::Span& span, sim::Ink ink) {
  strip.arrive.push_back(ps(span.begin));
  strip.begin.push_back(ps(span.active));
  strip.end.push_back(ps(span.end));
  strip.ink.push_back(static_cast<std::uint8_t>(ink));
  strip.op.push_back(span.op.value);
}

LaneGroup group_of(const sim::RankTrack& track, const sim::Program& program, std::uint32_t index,
                   sim::TimePoint end, bool has_pipeline) {
  LaneGroup group;
  group.track = index;
  group.rank = track.rank;
  group.stage = program.stage;
  group.represents = track.represents;
  group.program = &program;
  std::array<Strip, sim::stream_count> strips;
  for (const sim::Span& span : track.spans)
    add(strips[static_cast<std::size_t>(program.stream[span.op.value])], span,
        sim::ink_of(program, span.op));
  for (std::size_t stream = 0; stream < strips.size(); ++stream) {
    strips[stream].stream = static_cast<sim::Stream>(stream);
    strips[stream].sum_blocks();
    if (stream == static_cast<std::size_t>(sim::Stream::compute))
      group.compute = std::move(strips[stream]);
    else if (strips[stream].size() > 0)
      group.communication.push_back(std::move(strips[stream]));
  }
  for (const sim::Interval& idle :
       sim::intervals_of(&sim::Breakdown::bubble, track, program, end, has_pipeline))
    group.bubbles.push_back({ps(idle.begin), ps(idle.end)});
  return group;
}

}  // namespace

void Strip::sum_blocks() {
  sums.clear();
  sums.reserve(size() / block + 1);
  InkTimes sum{};
  for (std::size_t i = 0; i < size(); ++i) {
    if (i % block == 0) sums.push_back(sum);
    sum[ink[i]] += end[i] - begin[i];
  }
  if (size() % block == 0) sums.push_back(sum);
}

std::size_t Strip::first_ending_after(std::int64_t time) const {
  return static_cast<std::size_t>(std::upper_bound(end.begin(), end.end(), time) - end.begin());
}

Lanes make_lanes(const sim::Plan& plan, const sim::Timeline& timeline,
                 const std::vector<sim::RankId>& ranks) {
  Lanes lanes;
  lanes.end = ps(timeline.end);
  for (const sim::RankId rank : ranks) {
    const auto found =
        std::find_if(timeline.tracks.begin(), timeline.tracks.end(),
                     [&](const sim::RankTrack& track) { return track.rank == rank; });
    SIM_CHECK(found != timeline.tracks.end(), rank.value);
    lanes.groups.push_back(group_of(*found, plan.program(rank),
                                    static_cast<std::uint32_t>(found - timeline.tracks.begin()),
                                    timeline.end, plan.layout.pipeline_parallel > 1));
    lanes.spans += found->spans.size();
  }
  return lanes;
}

LaneGroup make_lane_group(const sim::Record& record, std::uint32_t track) {
  const sim::RecordedTrack& of = record.tracks[track];
  return group_of({of.rank, of.represents, of.spans}, record.programs[of.program], track,
                  record.end, record.pipeline);
}

InkTimes ink_times(const Strip& strip, std::int64_t from, std::int64_t to) {
  InkTimes times{};
  const std::size_t first = strip.first_ending_after(from);
  const auto add_clipped = [&](std::size_t i) {
    const std::int64_t begin = std::max(from, strip.begin[i]);
    const std::int64_t end = std::min(to, strip.end[i]);
    if (end > begin) times[strip.ink[i]] += end - begin;
  };
  // Spans first .. last - 1 begin before `to`.
  const std::size_t last = static_cast<std::size_t>(
      std::lower_bound(strip.begin.begin() + static_cast<std::ptrdiff_t>(first), strip.begin.end(),
                       to) -
      strip.begin.begin());
  if (last <= first) return times;
  if (last - first <= 2 * Strip::block) {
    for (std::size_t i = first; i < last; ++i)
      add_clipped(i);
    return times;
  }
  // Whole blocks by their sums; the spans at both edges one by one. The last one may be cut.
  const std::size_t block = (first + Strip::block) / Strip::block;
  const std::size_t block_end = (last - 1) / Strip::block;
  for (std::size_t i = first; i < block * Strip::block; ++i)
    add_clipped(i);
  for (std::size_t ink = 0; ink < times.size(); ++ink)
    times[ink] += strip.sums[block_end][ink] - strip.sums[block][ink];
  for (std::size_t i = block_end * Strip::block; i < last; ++i)
    add_clipped(i);
  return times;
}

}  // namespace ui
