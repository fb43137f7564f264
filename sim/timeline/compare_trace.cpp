// One trace with two records.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "sim/base/complete_file.hpp"
#include "sim/config/input_log.hpp"
#include "sim/timeline/compare.hpp"
#include "sim/timeline/json_stream.hpp"

namespace sim {
namespace {

class PairWriter {
 public:
  PairWriter(std::ostream& out, const Record& a, const Record& b) : json_{out}, a_{a}, b_{b} {
    for (const RecordedTrack& x : a.tracks)
      for (const RecordedTrack& y : b.tracks)
        if (x.rank == y.rank) shared_.insert(x.rank);
  }

  TraceStats write() {
    json_.text("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"title\":");
    json_.quoted(a_.origin.scenario + " (A), " + b_.origin.scenario + " (B)");
    json_.text("},\"traceEvents\":[");
    write_record_tracks(a_, 0);
    write_record_tracks(b_, 1);
    json_.text("\n]}\n");
    json_.flush();
    return {events_, json_.bytes()};
  }

 private:
  // Each rank of A above the same rank of B.
  static std::int64_t process(RankId rank, int side) { return 2 * std::int64_t{rank.value} + side; }

  void begin(std::int64_t pid, std::int64_t tid, std::string_view phase, std::string_view name) {
    json_.text(events_++ == 0 ? "\n{\"ph\":\"" : ",\n{\"ph\":\"");
    json_.text(phase);
    json_.text("\",\"pid\":");
    json_.integer(pid);
    json_.text(",\"tid\":");
    json_.integer(tid);
    json_.text(",\"name\":");
    json_.quoted(name);
  }
  void metadata(std::int64_t pid, std::int64_t tid, std::string_view what, std::string_view name) {
    begin(pid, tid, "M", what);
    json_.text(",\"args\":{\"name\":");
    json_.quoted(name);
    json_.text("}}");
  }
  void order(std::int64_t pid, std::int64_t tid, std::string_view what, std::int64_t index) {
    begin(pid, tid, "M", what);
    json_.text(",\"args\":{\"sort_index\":");
    json_.integer(index);
    json_.text("}}");
  }

  void write_record_tracks(const Record& record, int side) {
    for (const RecordedTrack& track : record.tracks) {
      if (!shared_.empty() && shared_.count(track.rank) == 0) continue;
      const std::int64_t pid = process(track.rank, side);
      const Program& program = record.programs[track.program];
      metadata(
          pid, 0, "process_name",
          fmt::format("{}: {}, rank {}{}", side == 0 ? "A" : "B", record.engine, track.rank.value,
                      track.represents > 1 ? fmt::format(" x{}", track.represents) : ""));
      order(pid, 0, "process_sort_index", pid);
      std::array<bool, stream_count> used{};
      for (const Stream stream : program.stream)
        used[static_cast<std::size_t>(stream)] = true;
      for (const auto& stream : words_of(Stream{})) {
        const auto lane = static_cast<std::int64_t>(stream.value);
        if (!used[static_cast<std::size_t>(lane)]) continue;
        metadata(pid, lane + 1, "thread_name", stream.text);
        order(pid, lane + 1, "thread_sort_index", lane);
      }
      for (const Span& span : track.spans)
        write_span(program, span, pid);
    }
  }

  void write_span(const Program& program, const Span& span, std::int64_t pid) {
    const std::uint32_t op = span.op.value;
    const std::int64_t lane = static_cast<std::int64_t>(program.stream[op]) + 1;
    if (span.active > span.begin) {
      begin(pid, lane, "X", "wait");
      json_.text(",\"cat\":\"wait\",\"cname\":\"grey\"");
      times(span.begin, span.active);
    }
    if (span.end <= span.active) return;
    begin(pid, lane, "X", program.name(span.op));
    json_.text(",\"cat\":\"");
    json_.text(word(program.pass[op]));
    json_.text("\",\"args\":{\"op\":");
    json_.integer(op);
    json_.text(",\"layer\":");
    json_.integer(program.label[op].layer);
    json_.text(",\"microbatch\":");
    json_.integer(program.label[op].microbatch);
    json_.text("}");
    times(span.active, span.end);
  }
  void times(TimePoint from, TimePoint to) {
    json_.text(",\"ts\":");
    json_.microseconds(from.time_since_epoch());
    json_.text(",\"dur\":");
    json_.microseconds(to - from);
    json_.text("}");
  }

  JsonStream json_;
  const Record& a_;
  const Record& b_;
  std::set<RankId> shared_;
  std::uint64_t events_ = 0;
};

}  // namespace

TraceStats write_comparison_trace(const std::string& path, const Record& a, const Record& b) {
  TraceStats stats;
  refuse_to_overwrite_input(path);
  write_complete_file(path, [&](std::ostream& out) { stats = PairWriter{out, a, b}.write(); });
  return stats;
}

}  // namespace sim
