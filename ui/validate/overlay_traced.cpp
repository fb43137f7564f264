// A profiler's trace as the run of an overlay.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "ui/validate/overlay.hpp"

namespace ui {
namespace {

std::int64_t picoseconds(sim::TimePoint time) {
  return time.time_since_epoch().count();
}

// The kernels of a rank as a program: each an operator, named as its kernel.
sim::Program program_of(const sim::TracedRank& rank, const sim::Program& forecast,
                        const sim::TrackMatch& match) {
  sim::Program program;
  program.stage = forecast.stage;
  program.kernels.resize(1);
  program.collectives.resize(1);
  std::map<std::string, std::uint32_t> names;
  for (std::size_t i = 0; i < rank.kernels.size(); ++i) {
    const sim::TracedKernel& kernel = rank.kernels[i];
    const bool communicates = kernel.kind == sim::OpKind::collective;
    const std::uint32_t op = match.in_a[i];
    const bool known = op != sim::no_operator;
    program.kind.push_back(kernel.kind);
    program.stream.push_back(known          ? forecast.stream[op]
                             : communicates ? sim::Stream::data_comm
                                            : sim::Stream::compute);
    program.pass.push_back(known ? forecast.pass[op] : sim::Pass::forward);
    program.work.push_back(0);
    const auto [place, is_new] =
        names.emplace(kernel.name, static_cast<std::uint32_t>(program.names.size()));
    if (is_new) program.names.push_back(kernel.name);
    sim::OpLabel label = known ? forecast.label[op] : sim::OpLabel{};
    label.name = place->second;
    program.label.push_back(label);
  }
  return program;
}

void add(Strip& strip, const sim::TracedKernel& kernel, std::uint32_t op, sim::Ink ink) {
  strip.arrive.push_back(picoseconds(kernel.begin));
  strip.begin.push_back(picoseconds(kernel.begin));
  strip.end.push_back(picoseconds(kernel.end));
  strip.ink.push_back(static_cast<std::uint8_t>(ink));
  strip.op.push_back(op);
}

// Every kernel is in a strip; those that overlap are in several of the same stream.
std::vector<Strip> strips_of(const sim::TracedRank& rank, const sim::Program& program) {
  std::vector<Strip> strips;
  for (std::uint32_t i = 0; i < rank.kernels.size(); ++i) {
    const sim::TracedKernel& kernel = rank.kernels[i];
    auto free = std::find_if(strips.begin(), strips.end(), [&](const Strip& strip) {
      return strip.stream == program.stream[i] && strip.end.back() <= picoseconds(kernel.begin);
    });
    if (free == strips.end()) {
      free = strips.insert(strips.end(), Strip{});
      free->stream = program.stream[i];
    }
    add(*free, kernel, i, sim::ink_of(program, sim::OpId{i}));
  }
  std::stable_sort(strips.begin(), strips.end(),
                   [](const Strip& a, const Strip& b) { return a.stream < b.stream; });
  for (Strip& strip : strips)
    strip.sum_blocks();
  return strips;
}

LaneGroup group_of(const sim::TracedRank& rank, const sim::Program& program) {
  LaneGroup group;
  group.rank = rank.rank;
  group.stage = program.stage;
  group.program = &program;
  for (Strip& strip : strips_of(rank, program)) {
    if (strip.stream == sim::Stream::compute && group.compute.size() == 0)
      group.compute = std::move(strip);
    else
      group.communication.push_back(std::move(strip));
  }
  group.compute.sum_blocks();
  return group;
}

// The kernels as a record: only spans, programs and the end are filled.
std::shared_ptr<sim::Record> record_of(const sim::TracedTimeline& measured,
                                       const sim::Record& forecast, const sim::RecordMatch& match) {
  auto record = std::make_shared<sim::Record>();
  record->engine = "trace";
  record->end = measured.end;
  for (const sim::TrackMatch& pair : match.tracks) {
    const sim::TracedRank& rank = measured.ranks[pair.b];
    const sim::RecordedTrack& track = forecast.tracks[pair.a];
    sim::RecordedTrack kernels;
    kernels.rank = rank.rank;
    kernels.program = static_cast<std::uint32_t>(record->programs.size());
    record->programs.push_back(program_of(rank, forecast.programs[track.program], pair));
    for (std::uint32_t i = 0; i < rank.kernels.size(); ++i)
      kernels.spans.push_back(
          {sim::OpId{i}, rank.kernels[i].begin, rank.kernels[i].begin, rank.kernels[i].end});
    record->tracks.push_back(std::move(kernels));
  }
  return record;
}

using Key = std::tuple<std::string, sim::Pass, bool>;  // bool: in the forecast

// Sums of one pair by the name of the forecast's operator, or of a kernel that has none.
void add_sums(std::map<Key, sim::OperatorRow>& rows, const sim::RecordedTrack& forecast,
              const sim::Program& program, const sim::TracedRank& run, const sim::TrackMatch& match,
              double ranks) {
  const auto row = [&](const std::string& name, sim::Pass pass, bool known) -> sim::OperatorRow& {
    sim::OperatorRow& of = rows[{name, pass, known}];
    of.name = name;
    of.pass = pass;
    return of;
  };
  for (const sim::Span& span : forecast.spans) {
    sim::OperatorRow& of = row(program.name(span.op), program.pass[span.op.value], true);
    of.kind = program.kind[span.op.value];
    of.count_a += 1 / ranks;
    of.total.a += sim::to_seconds(span.end - span.active) / ranks;
  }
  for (std::size_t i = 0; i < run.kernels.size(); ++i) {
    const std::uint32_t op = match.in_a[i];
    const bool known = op != sim::no_operator;
    sim::OperatorRow& of = known ? row(program.name(sim::OpId{op}), program.pass[op], true)
                                 : row(run.kernels[i].name, sim::Pass::forward, false);
    of.count_b += 1 / ranks;
    of.total.b += sim::to_seconds(run.kernels[i].time()) / ranks;
  }
}

std::vector<sim::OperatorRow> sorted_rows(std::map<Key, sim::OperatorRow> sums) {
  std::vector<sim::OperatorRow> rows;
  double all = 0;
  for (auto& [key, row] : sums) {
    row.mean = {row.count_a > 0 ? row.total.a / row.count_a : 0,
                row.count_b > 0 ? row.total.b / row.count_b : 0};
    all += std::abs(row.total.difference());
    rows.push_back(std::move(row));
  }
  for (sim::OperatorRow& row : rows)
    row.share = all > 0 ? std::abs(row.total.difference()) / all : 0;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::abs(a.total.difference()) > std::abs(b.total.difference());
  });
  return rows;
}

}  // namespace

OverlayPtr make_overlay(RecordPtr forecast, const sim::TracedTimeline& measured) {
  auto overlay = std::make_shared<Overlay>();
  overlay->traced = true;
  overlay->match = sim::align(*forecast, measured);
  const std::shared_ptr<sim::Record> run = record_of(measured, *forecast, overlay->match);
  const std::size_t pairs = overlay->match.tracks.size();
  overlay->shown = std::min(Overlay::most_pairs, pairs);
  std::map<Key, sim::OperatorRow> sums;
  for (std::size_t i = 0; i < pairs; ++i) {
    sim::TrackMatch& pair = overlay->match.tracks[i];
    const sim::TracedRank& rank = measured.ranks[pair.b];
    const sim::RecordedTrack& track = forecast->tracks[pair.a];
    add_sums(sums, track, forecast->programs[track.program], rank, pair,
             static_cast<double>(pairs));
    pair.b = static_cast<std::uint32_t>(i);  // of the record of the kernels
    if (i >= overlay->shown) continue;
    for (LaneGroup group : {make_lane_group(*forecast, pair.a), group_of(rank, run->programs[i])}) {
      group.track = static_cast<std::uint32_t>(overlay->lanes.groups.size());
      overlay->lanes.groups.push_back(std::move(group));
    }
    overlay->lanes.spans += track.spans.size() + rank.kernels.size();
  }
  overlay->comparison.step = {sim::to_seconds(forecast->end), sim::to_seconds(measured.end)};
  overlay->comparison.rows = sorted_rows(std::move(sums));
  overlay->lanes.end = std::max(picoseconds(forecast->end), picoseconds(measured.end));
  overlay->forecast = std::move(forecast);
  overlay->run = run;
  return overlay;
}

}  // namespace ui
