#include "sim/timeline/perfetto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>

#include "sim/base/complete_file.hpp"
#include "sim/config/input_log.hpp"
#include "sim/timeline/json_stream.hpp"
#include "sim/timeline/trace_counters.hpp"

namespace sim {
namespace {

class TraceWriter {
 public:
  TraceWriter(std::ostream& out, const Plan& plan, const Timeline& timeline,
              const TraceOptions& options)
      : json_{out}, plan_{plan}, timeline_{timeline}, options_{options} {
    choose_tracks();
  }

  TraceStats write() {
    json_.text("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":");
    json_.quoted(options_.title);
    json_.text(",\"engine\":");
    json_.quoted(timeline_.engine);
    json_.text("},\"traceEvents\":[");
    for (const RankTrack* track : tracks_)
      write_names(*track);
    for (const RankTrack* track : tracks_)
      write_slices(*track);
    for (const RankTrack* track : tracks_)
      write_counters(*track);
    write_message_arrows();
    write_collective_arrows();
    json_.text("\n]}\n");
    json_.flush();
    return {events_, json_.bytes()};
  }

 private:
  void choose_tracks();
  void write_names(const RankTrack& track);
  void write_slices(const RankTrack& track);
  void write_slice(const std::string& head, RankId rank, Stream stream, TimePoint from,
                   TimePoint to);
  void write_counters(const RankTrack& track);
  void write_message_arrows();
  void write_collective_arrows();
  void arrow_end(const char* phase, std::uint64_t id, RankId rank, Stream stream, TimePoint at);
  void begin_metadata(const char* what, RankId rank, int stream);
  void name_event(const char* what, RankId rank, int stream, const std::string& name);
  void sort_event(const char* what, RankId rank, int stream, std::int64_t order);
  const std::vector<std::string>& heads_of(const Program& program);
  const RankTrack* shown(RankId rank) const;
  const RankTrack* stand_in(RankId rank) const;

  void begin_event() { json_.text(events_++ == 0 ? "\n" : ",\n"); }

  JsonStream json_;
  const Plan& plan_;
  const Timeline& timeline_;
  const TraceOptions& options_;
  std::vector<const RankTrack*> tracks_;
  std::map<RankId, const RankTrack*> track_of_;
  std::map<std::uint32_t, const RankTrack*> track_of_program_;
  std::vector<std::string> heads_;  // of `heads_program_`
  const Program* heads_program_ = nullptr;
  std::uint64_t events_ = 0;
  std::uint64_t arrows_ = 0;
};

void TraceWriter::choose_tracks() {
  for (const RankTrack& track : timeline_.tracks)
    track_of_.emplace(track.rank, &track);
  if (!options_.ranks.empty()) {
    std::map<RankId, const RankTrack*> chosen;
    for (const RankId rank : options_.ranks) {
      const auto found = track_of_.find(rank);
      if (found == track_of_.end())
        throw std::invalid_argument(fmt::format("rank {} was not recorded", rank.value));
      chosen.insert(*found);
    }
    track_of_ = std::move(chosen);
  }
  for (const auto& [rank, track] : track_of_) {
    tracks_.push_back(track);
    track_of_program_.emplace(plan_.program_of_rank[rank.value], track);
  }
}

const RankTrack* TraceWriter::shown(RankId rank) const {
  const auto found = track_of_.find(rank);
  return found == track_of_.end() ? nullptr : found->second;
}

// The rank itself, or one that runs the same program, so that arrows reach representatives.
const RankTrack* TraceWriter::stand_in(RankId rank) const {
  if (const RankTrack* track = shown(rank)) return track;
  const auto found = track_of_program_.find(plan_.program_of_rank[rank.value]);
  return found == track_of_program_.end() ? nullptr : found->second;
}

void TraceWriter::begin_metadata(const char* what, RankId rank, int stream) {
  begin_event();
  json_.text("{\"ph\":\"M\",\"pid\":");
  json_.integer(rank.value);
  json_.text(",\"tid\":");
  json_.integer(stream);
  json_.text(",\"name\":\"");
  json_.text(what);
  json_.text("\",\"args\":{\"");
}

void TraceWriter::name_event(const char* what, RankId rank, int stream, const std::string& name) {
  begin_metadata(what, rank, stream);
  json_.text(std::string_view{what} == "process_labels" ? "labels" : "name");
  json_.text("\":");
  json_.quoted(name);
  json_.text("}}");
}

void TraceWriter::sort_event(const char* what, RankId rank, int stream, std::int64_t order) {
  begin_metadata(what, rank, stream);
  json_.text("sort_index\":");
  json_.integer(order);
  json_.text("}}");
}

void TraceWriter::write_names(const RankTrack& track) {
  const RankId rank = track.rank;
  const int per_node = std::max(1, options_.gpus_per_node);
  const int index = static_cast<int>(rank.value);
  std::string name =
      fmt::format("rank {} (node {} gpu {})", index, index / per_node, index % per_node);
  if (track.represents > 1) name += fmt::format(" x{}", track.represents);
  name_event("process_name", rank, 0, name);
  const RankCoordinates at = coordinates_of(plan_.layout, rank);
  name_event("process_labels", rank, 0,
             fmt::format("stage {}, dp {}, tp {}", at.pipeline, at.data, at.tensor));
  // Stages below each other, as pipeline diagrams are drawn.
  sort_event("process_sort_index", rank, 0,
             static_cast<std::int64_t>(at.pipeline) * plan_.world_size() + index);
  std::array<bool, stream_count> used{};
  const Program& program = plan_.program(rank);
  for (const Stream stream : program.stream)
    used[static_cast<std::size_t>(stream)] = true;
  for (const auto& stream : words_of(Stream{})) {
    const int lane = static_cast<int>(stream.value);
    if (!used[static_cast<std::size_t>(lane)]) continue;
    name_event("thread_name", rank, lane + 1, std::string{stream.text});
    sort_event("thread_sort_index", rank, lane + 1, lane);
  }
}

std::string slice_arguments(const Program& program, OpId op) {
  const OpLabel& label = program.label[op.value];
  std::string text = fmt::format("\"op\":{}", op.value);
  if (label.layer >= 0) text += fmt::format(",\"layer\":{}", label.layer);
  if (label.chunk >= 0) text += fmt::format(",\"chunk\":{}", label.chunk);
  if (label.microbatch >= 0) text += fmt::format(",\"microbatch\":{}", label.microbatch);
  const std::uint32_t work = program.work[op.value];
  switch (program.kind[op.value]) {
    case OpKind::gemm: {
      const Kernel& k = program.kernels[work];
      text += fmt::format(",\"m\":{},\"n\":{},\"k\":{},\"batch\":{},\"dtype\":\"{}\"", k.m, k.n,
                          k.k, k.batch, word(k.dtype));
      break;
    }
    case OpKind::collective:
    case OpKind::barrier: {
      const Collective& c = program.collectives[work];
      text += fmt::format(",\"operation\":\"{}\",\"group\":\"{}\",\"bytes\":{}", word(c.kind),
                          word(c.group), c.bytes.count());
      break;
    }
    case OpKind::send:
    case OpKind::recv:
      text += fmt::format(",\"bytes\":{}", program.transfers[work].bytes.count());
      break;
    default:
      break;
  }
  return text;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '"' || c == '\\') safe += '\\';
    safe += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return safe;
}

const std::vector<std::string>& TraceWriter::heads_of(const Program& program) {
  if (heads_program_ == &program) return heads_;
  heads_program_ = &program;
  heads_.clear();
  heads_.reserve(program.size());
  for (std::uint32_t i = 0; i < program.size(); ++i) {
    const OpId op{i};
    heads_.push_back(fmt::format("{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":\"{}\",\"args\":{{{}}}",
                                 word(program.pass[i]), escaped(program.name(op)),
                                 slice_arguments(program, op)));
  }
  return heads_;
}

void TraceWriter::write_slice(const std::string& head, RankId rank, Stream stream, TimePoint from,
                              TimePoint to) {
  begin_event();
  json_.text(head);
  json_.text(",\"pid\":");
  json_.integer(rank.value);
  json_.text(",\"tid\":");
  json_.integer(static_cast<int>(stream) + 1);
  json_.text(",\"ts\":");
  json_.microseconds(from.time_since_epoch());
  json_.text(",\"dur\":");
  json_.microseconds(to - from);
  json_.text("}");
}

void TraceWriter::write_slices(const RankTrack& track) {
  static const std::string waiting =
      "{\"ph\":\"X\",\"cat\":\"wait\",\"name\":\"wait\",\"cname\":\"grey\"";
  const Program& program = plan_.program(track.rank);
  const std::vector<std::string>& heads = heads_of(program);
  for (const Span& span : track.spans) {
    const Stream stream = program.stream[span.op.value];
    if (span.active > span.begin) write_slice(waiting, track.rank, stream, span.begin, span.active);
    if (span.end > span.active)
      write_slice(heads[span.op.value], track.rank, stream, span.active, span.end);
  }
}

void TraceWriter::write_counters(const RankTrack& track) {
  const Program& program = plan_.program(track.rank);
  const auto write = [&](const char* name, const CounterSeries& series) {
    for (const CounterPoint& point : series.points) {
      begin_event();
      json_.text("{\"ph\":\"C\",\"pid\":");
      json_.integer(track.rank.value);
      json_.text(",\"name\":\"");
      json_.text(name);
      json_.text("\",\"ts\":");
      json_.microseconds(point.at.time_since_epoch());
      json_.text(",\"args\":{");
      for (std::size_t i = 0; i < series.names.size(); ++i) {
        json_.text(i == 0 ? "\"" : ",\"");
        json_.text(series.names[i]);
        json_.text("\":");
        json_.integer(point.values[i]);
      }
      json_.text("}}");
    }
  };
  write("memory (MiB)", memory_over_time(track, program));
  write("sends (MB/s)", sending_over_time(track, plan_));
}

void TraceWriter::arrow_end(const char* phase, std::uint64_t id, RankId rank, Stream stream,
                            TimePoint at) {
  begin_event();
  json_.text("{\"ph\":\"");
  json_.text(phase);
  // "bp":"e" binds the arrow to the slice around it, not to the next one that begins.
  json_.text(phase[0] == 's' ? "\",\"cat\":\"message\",\"name\":\"message\",\"id\":"
                             : "\",\"bp\":\"e\",\"cat\":\"message\",\"name\":\"message\",\"id\":");
  json_.integer(static_cast<std::int64_t>(id));
  json_.text(",\"pid\":");
  json_.integer(rank.value);
  json_.text(",\"tid\":");
  json_.integer(static_cast<int>(stream) + 1);
  json_.text(",\"ts\":");
  json_.microseconds(at.time_since_epoch());
  json_.text("}");
}

std::vector<const Span*> spans_on(const RankTrack& track, const Program& program, Stream stream,
                                  OpKind kind) {
  std::vector<const Span*> spans;
  for (const Span& span : track.spans)
    if (program.stream[span.op.value] == stream && program.kind[span.op.value] == kind)
      spans.push_back(&span);
  return spans;
}

// The k-th send of a rank meets the k-th receive of its neighbour: messages match in order.
void TraceWriter::write_message_arrows() {
  struct Direction {
    Stream send, receive;
    Peer to;
  };
  for (const Direction& way :
       {Direction{Stream::forward_send, Stream::forward_recv, Peer::next_stage},
        Direction{Stream::backward_send, Stream::backward_recv, Peer::previous_stage}}) {
    for (const RankTrack* from : tracks_) {
      const RankId peer = plan_.peer_of[from->rank.value][static_cast<std::size_t>(way.to)];
      const RankTrack* to = peer == from->rank ? nullptr : stand_in(peer);
      if (!to) continue;
      const auto sends = spans_on(*from, plan_.program(from->rank), way.send, OpKind::send);
      const auto receives = spans_on(*to, plan_.program(to->rank), way.receive, OpKind::recv);
      for (std::size_t i = 0; i < std::min(sends.size(), receives.size()); ++i) {
        const std::uint64_t id = ++arrows_;
        arrow_end("s", id, from->rank, way.send, sends[i]->active);
        arrow_end("f", id, to->rank, way.receive, std::max(receives[i]->active, sends[i]->active));
      }
    }
  }
}

// One chain of arrows through the shown members of a group, per collective.
void TraceWriter::write_collective_arrows() {
  std::map<std::uint32_t, std::vector<const RankTrack*>> members;
  for (const RankTrack* track : tracks_)
    for (const std::uint32_t group : plan_.group_of[track->rank.value])
      if (group != Plan::no_group) members[group].push_back(track);
  for (const auto& [group, tracks] : members) {
    if (tracks.size() < 2) continue;
    const GroupRole role = plan_.groups[group].role;
    std::vector<std::vector<const Span*>> calls;
    for (const RankTrack* track : tracks) {
      const Program& program = plan_.program(track->rank);
      std::vector<const Span*>& mine = calls.emplace_back();
      for (const Span& span : track->spans)
        if (program.kind[span.op.value] == OpKind::collective &&
            program.collectives[program.work[span.op.value]].group == role)
          mine.push_back(&span);
    }
    for (std::size_t i = 0; i < calls.front().size(); ++i) {
      const std::uint64_t id = ++arrows_;
      for (std::size_t m = 0; m < tracks.size(); ++m) {
        if (i >= calls[m].size()) break;
        const Span& span = *calls[m][i];
        arrow_end(m == 0                   ? "s"
                  : m + 1 == tracks.size() ? "f"
                                           : "t",
                  id, tracks[m]->rank, plan_.program(tracks[m]->rank).stream[span.op.value],
                  span.active);
      }
    }
  }
}

}  // namespace

TraceStats write_perfetto(std::ostream& out, const Plan& plan, const Timeline& timeline,
                          const TraceOptions& options) {
  return TraceWriter{out, plan, timeline, options}.write();
}

TraceStats write_perfetto_file(const std::string& path, const Plan& plan, const Timeline& timeline,
                               const TraceOptions& options) {
  TraceStats stats;
  refuse_to_overwrite_input(path);
  write_complete_file(
      path, [&](std::ostream& file) { stats = write_perfetto(file, plan, timeline, options); });
  return stats;
}

}  // namespace sim
