#include "sim/timeline/match.hpp"

#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace sim {
namespace {

using Key = std::tuple<Stream, OpKind, Pass, std::string_view, int, int, int>;

Key key_of(const Program& program, std::uint32_t op) {
  const OpLabel& label = program.label[op];
  return {program.stream[op], program.kind[op], program.pass[op], program.name(OpId{op}),
          label.layer,        label.chunk,      label.microbatch};
}

// The k-th operator of a key is the k-th of that key in the other program.
void match_programs(const Program& a, const Program& b, TrackMatch& match) {
  match.in_b.assign(a.size(), no_operator);
  match.in_a.assign(b.size(), no_operator);
  struct Queue {
    std::vector<std::uint32_t> ops;
    std::size_t next = 0;
  };
  std::map<Key, Queue> waiting;
  for (std::uint32_t op = 0; op < a.size(); ++op)
    waiting[key_of(a, op)].ops.push_back(op);
  for (std::uint32_t op = 0; op < b.size(); ++op) {
    const auto found = waiting.find(key_of(b, op));
    if (found == waiting.end() || found->second.next == found->second.ops.size()) continue;
    const std::uint32_t other = found->second.ops[found->second.next++];
    match.in_a[op] = other;
    match.in_b[other] = op;
  }
}

}  // namespace

const RecordedTrack* counterpart(const Record& record, const RecordedTrack& of) {
  const RecordedTrack* stage = nullptr;
  for (const RecordedTrack& track : record.tracks) {
    if (track.rank == of.rank) return &track;
    if (!stage && track.at.pipeline == of.at.pipeline) stage = &track;
  }
  return stage;
}

RecordMatch match_operators(const Record& a, const Record& b) {
  RecordMatch match;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> known;  // programs; of `tracks`
  for (std::uint32_t i = 0; i < b.tracks.size(); ++i) {
    const RecordedTrack& track = b.tracks[i];
    const RecordedTrack* other = counterpart(a, track);
    TrackMatch pair;
    if (other) {
      pair.a = static_cast<std::uint32_t>(other - a.tracks.data());
      pair.b = i;
      const auto [place, is_new] =
          known.emplace(std::pair{other->program, track.program}, match.tracks.size());
      if (is_new) {
        match_programs(a.programs[other->program], b.programs[track.program], pair);
      } else {
        pair.in_b = match.tracks[place->second].in_b;
        pair.in_a = match.tracks[place->second].in_a;
      }
    }
    for (const Span& span : track.spans) {
      const double time = to_seconds(span.end - span.active) * track.represents;
      match.measured += time;
      match.operators += track.represents;
      if (!other || pair.in_a[span.op.value] == no_operator) continue;
      match.matched += time;
      match.matched_operators += track.represents;
    }
    if (other) match.tracks.push_back(std::move(pair));
  }
  return match;
}

}  // namespace sim
