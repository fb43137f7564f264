// The reader of records: strict, since what it returns is compared without looking again.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>

#include "sim/config/json_scan.hpp"
#include "sim/config/text_check.hpp"
#include "sim/timeline/record_format.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_file = std::size_t{1} << 30;
constexpr std::int64_t most_ranks = 1 << 24;
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
// Times in a record: 11 days of picoseconds, so that sums of a few stay within 64 bits.
constexpr std::int64_t longest = std::int64_t{1'000'000} * 1'000'000'000'000;
constexpr std::int64_t largest_size = std::int64_t{1} << 50;

// Every entry of an object once.
class Keys {
 public:
  Keys(JsonScan& scan, std::initializer_list<std::string_view> all) : scan_{scan}, missing_{all} {}
  void take(std::string_view key) {
    const auto found = std::find(missing_.begin(), missing_.end(), key);
    if (found == missing_.end()) scan_.unknown_key();
    missing_.erase(found);
  }
  void done() const {
    if (!missing_.empty()) scan_.fail(fmt::format("\"{}\" is missing", missing_.front()));
  }

 private:
  JsonScan& scan_;
  std::vector<std::string_view> missing_;
};

class RecordReader {
 public:
  RecordReader(std::string_view text, const std::string& name) : scan_{text, name} {}

  Record read() {
    object({"format", "version", "scenario", "engine", "date", "machine", "provenance",
            "gpus_per_node", "steps_ps", "world_size", "pipeline", "end_ps", "words", "programs",
            "tracks", "collectives"},
           [&](std::string_view key) { read_entry(key); });
    scan_.finish();
    const std::string problem = record_problem(record_);
    if (!problem.empty()) throw InputError(SourcePosition{.file = scan_.where().file}, problem);
    return std::move(record_);
  }

 private:
  template <class Entry>
  void object(std::initializer_list<std::string_view> all, Entry entry) {
    Keys keys{scan_, all};
    scan_.object([&](std::string_view key) {
      const std::string kept{key};
      keys.take(kept);
      entry(kept);
    });
    keys.done();
  }

  void read_entry(std::string_view key) {
    RecordOrigin& origin = record_.origin;
    if (key == "format") {
      if (scan_.text() != "stepcast record") scan_.fail("this is no record of stepcast");
    } else if (key == "version") {
      const std::int64_t version = scan_.integer();
      if (version != record_version)
        scan_.fail(fmt::format("version {} of the format; this program reads {}", version,
                               record_version));
    } else if (key == "scenario") {
      origin.scenario = scan_.text();
    } else if (key == "engine") {
      record_.engine = scan_.text();
    } else if (key == "date") {
      origin.date = scan_.text();
    } else if (key == "machine") {
      origin.machine = scan_.text();
    } else if (key == "provenance") {
      scan_.list([&] { origin.provenance.push_back(scan_.text()); });
    } else if (key == "gpus_per_node") {
      origin.gpus_per_node = number<int>(1, most_ranks);
    } else if (key == "steps_ps") {
      scan_.list([&] { origin.steps.push_back(duration()); });
    } else if (key == "world_size") {
      record_.world_size = number<int>(1, most_ranks);
    } else if (key == "pipeline") {
      record_.pipeline = number<int>(0, 1) == 1;
    } else if (key == "end_ps") {
      record_.end = TimePoint{duration()};
    } else {
      read_table(key);
    }
  }

  void read_table(std::string_view key) {
    if (key == "words")
      read_words();
    else if (key == "programs")
      scan_.list([&] { read_program(); });
    else if (key == "tracks")
      scan_.list([&] { read_track(); });
    else
      scan_.list([&] { read_summary(); });
  }

  // ---- Numbers.
  template <class Number>
  Number number(std::int64_t least, std::int64_t greatest) {
    return static_cast<Number>(scan_.integer({.min = least, .max = greatest}));
  }
  Duration duration() { return Duration{scan_.integer({.min = 0, .max = longest})}; }
  Bytes bytes() { return Bytes{scan_.integer({.min = 0, .max = largest_size})}; }
  bool flag() { return scan_.integer({.min = 0, .max = 1}) == 1; }

  // Calls column(i) for each entry of a list of exactly `count`.
  template <class Column>
  void row(std::size_t count, Column column) {
    std::size_t at = 0;
    scan_.list([&] {
      if (at >= count) scan_.fail(fmt::format("expected {} numbers", count));
      column(at++);
    });
    if (at != count) scan_.fail(fmt::format("expected {} numbers", count));
  }

  // ---- Enumerations: their words as the writer knew them, by number.
  template <class Enum>
  void read_list(std::vector<Enum>& into) {
    scan_.list([&] {
      const std::string text = scan_.text();
      const std::optional<Enum> value = from_word<Enum>(text);
      if (!value) scan_.fail(fmt::format("unknown word \"{}\"", text));
      into.push_back(*value);
    });
  }
  void read_words() {
    object({"kind", "stream", "pass", "dtype", "operation", "group"}, [&](std::string_view key) {
      if (key == "kind")
        read_list(kinds_);
      else if (key == "stream")
        read_list(streams_);
      else if (key == "pass")
        read_list(passes_);
      else if (key == "dtype")
        read_list(dtypes_);
      else if (key == "operation")
        read_list(operations_);
      else
        read_list(groups_);
    });
  }
  template <class Enum>
  Enum word(const std::vector<Enum>& list) {
    if (list.empty()) scan_.fail("\"words\" must come before what uses them");
    return list[number<std::size_t>(0, static_cast<std::int64_t>(list.size()) - 1)];
  }

  // ---- Programs.
  Kernel kernel() {
    Kernel k;
    row(kernel_columns, [&](std::size_t column) {
      switch (column) {
        case 0:
          k.kind = word(kinds_);
          break;
        case 1:
          k.dtype = word(dtypes_);
          break;
        case 2:
          k.part = flag() ? AttentionPart::backward : AttentionPart::forward;
          break;
        case 3:
          k.causal = flag();
          break;
        case 4:
          k.flash = flag();
          break;
        case 5:
          k.flash_2 = flag();
          break;
        case 6:
          k.m = number<std::int64_t>(0, largest_size);
          break;
        case 7:
          k.n = number<std::int64_t>(0, largest_size);
          break;
        case 8:
          k.k = number<std::int64_t>(0, largest_size);
          break;
        case 9:
          k.batch = number<std::int64_t>(0, largest_size);
          break;
        case 10:
          k.heads = number<std::int64_t>(0, largest_size);
          break;
        case 11:
          k.kv_heads = number<std::int64_t>(0, largest_size);
          break;
        case 12:
          k.bytes = bytes();
          break;
        default:
          k.launches = number<int>(0, 1 << 20);
          break;
      }
    });
    return k;
  }

  void read_operator(Program& program) {
    OpLabel label;
    row(operator_columns, [&](std::size_t column) {
      switch (column) {
        case 0:
          label.name = number<std::uint32_t>(0, UINT32_MAX);
          break;
        case 1:
          program.kind.push_back(word(kinds_));
          break;
        case 2:
          program.stream.push_back(word(streams_));
          break;
        case 3:
          program.pass.push_back(word(passes_));
          break;
        case 4:
          label.layer = number<std::int16_t>(-1, INT16_MAX);
          break;
        case 5:
          label.chunk = number<std::int16_t>(-1, INT16_MAX);
          break;
        case 6:
          label.microbatch = number<std::int32_t>(-1, INT32_MAX);
          break;
        default:
          program.work.push_back(number<std::uint32_t>(0, UINT32_MAX));
          break;
      }
    });
    program.label.push_back(label);
  }

  void read_program() {
    Program program;
    std::vector<double> flops;
    object({"stage", "names", "kernels", "flops", "collectives", "transfers", "operators"},
           [&](std::string_view key) {
             if (key == "stage") {
               program.stage = number<int>(0, most_ranks);
             } else if (key == "names") {
               scan_.list([&] { program.names.push_back(scan_.text()); });
             } else if (key == "kernels") {
               scan_.list([&] { program.kernels.push_back(kernel()); });
             } else if (key == "flops") {
               scan_.list([&] { flops.push_back(scan_.real({.min = 0, .max = 1e30})); });
             } else if (key == "collectives") {
               scan_.list([&] { program.collectives.push_back(collective()); });
             } else if (key == "transfers") {
               scan_.list([&] { program.transfers.push_back(transfer()); });
             } else {
               scan_.list([&] { read_operator(program); });
             }
           });
    if (flops.size() != program.kernels.size())
      scan_.fail("\"flops\" must have one number per kernel");
    for (std::size_t i = 0; i < flops.size(); ++i)
      program.kernels[i].flops = Flops{flops[i]};
    close_kept(program);
    record_.programs.push_back(std::move(program));
  }

  Collective collective() {
    Collective c;
    row(4, [&](std::size_t column) {
      switch (column) {
        case 0:
          c.kind = word(operations_);
          break;
        case 1:
          c.group = word(groups_);
          break;
        case 2:
          c.dtype = word(dtypes_);
          break;
        default:
          c.bytes = bytes();
          break;
      }
    });
    return c;
  }

  Transfer transfer() {
    Transfer t;
    row(3, [&](std::size_t column) {
      switch (column) {
        case 0:
          t.peer = flag() ? Peer::previous_stage : Peer::next_stage;
          break;
        case 1:
          t.dtype = word(dtypes_);
          break;
        default:
          t.bytes = bytes();
          break;
      }
    });
    return t;
  }

  // ---- Tracks.
  void read_track() {
    RecordedTrack track;
    object({"rank", "represents", "program", "at", "peak_memory", "spans_ps"},
           [&](std::string_view key) {
             if (key == "rank") {
               track.rank = RankId{number<std::uint32_t>(0, most_ranks)};
             } else if (key == "represents") {
               track.represents = number<std::uint32_t>(1, most_ranks);
             } else if (key == "program") {
               track.program = number<std::uint32_t>(0, UINT32_MAX);
             } else if (key == "at") {
               row(3, [&](std::size_t column) {
                 const int value = number<int>(0, most_ranks);
                 (column == 0   ? track.at.tensor
                  : column == 1 ? track.at.data
                                : track.at.pipeline) = value;
               });
             } else if (key == "peak_memory") {
               track.peak_memory = bytes();
             } else {
               read_spans(track);
             }
           });
    record_.tracks.push_back(std::move(track));
  }

  void read_spans(RecordedTrack& track) {
    int column = 0;
    scan_.list([&] {
      if (column == 0) {
        const TimePoint begin{duration()};
        track.spans.push_back(
            {OpId{static_cast<std::uint32_t>(track.spans.size())}, begin, begin, begin});
      } else if (column == 1) {
        track.spans.back().active += duration();
      } else {
        track.spans.back().end = track.spans.back().active + duration();
      }
      column = (column + 1) % 3;
    });
    if (column != 0) scan_.fail("\"spans_ps\" must have three numbers per operator");
  }

  void read_summary() {
    CollectiveSummary summary;
    object({"operation", "group", "algorithm", "ranks", "count", "bytes", "mean_time_ps"},
           [&](std::string_view key) {
             if (key == "operation")
               summary.kind = word(operations_);
             else if (key == "group")
               summary.group = word(groups_);
             else if (key == "algorithm")
               summary.algorithm = scan_.text();
             else if (key == "ranks")
               summary.ranks = number<int>(0, most_ranks);
             else if (key == "count")
               summary.count = number<std::uint64_t>(0, most);
             else if (key == "bytes")
               summary.bytes = bytes();
             else
               summary.mean_time = duration();
           });
    record_.collectives.push_back(std::move(summary));
  }

  JsonScan scan_;
  Record record_;
  std::vector<OpKind> kinds_;
  std::vector<Stream> streams_;
  std::vector<Pass> passes_;
  std::vector<DType> dtypes_;
  std::vector<CollectiveKind> operations_;
  std::vector<GroupRole> groups_;
};

std::string operator_problem(const Program& program, std::uint32_t op) {
  if (program.label[op].name >= program.names.size()) return "has no name";
  const OpKind kind = program.kind[op];
  const std::uint32_t work = program.work[op];
  if (runs_kernel(kind) && work >= program.kernels.size()) return "has no kernel";
  if (kind == OpKind::collective && work >= program.collectives.size()) return "has no collective";
  if ((kind == OpKind::send || kind == OpKind::recv) && work >= program.transfers.size())
    return "has no transfer";
  return {};
}

std::string track_problem(const Record& record, const RecordedTrack& track) {
  if (track.rank.value >= static_cast<std::uint32_t>(record.world_size))
    return "is beyond the world size";
  if (track.program >= record.programs.size()) return "has no program";
  const Program& program = record.programs[track.program];
  if (track.spans.size() != program.size())
    return fmt::format("has {} spans for {} operators", track.spans.size(), program.size());
  std::array<TimePoint, stream_count> free{};
  for (std::uint32_t op = 0; op < program.size(); ++op) {
    const Span& span = track.spans[op];
    TimePoint& last = free[static_cast<std::size_t>(program.stream[op])];
    if (span.begin < last || span.active < span.begin || span.end < span.active ||
        span.end > record.end)
      return fmt::format(
          "operator {} ({}) ends before it begins, overlaps the one before it on "
          "its stream, or ends after the step",
          op, program.name(OpId{op}));
    last = span.end;
  }
  return {};
}

}  // namespace

std::string record_problem(const Record& record) {
  for (std::size_t p = 0; p < record.programs.size(); ++p)
    for (std::uint32_t op = 0; op < record.programs[p].size(); ++op)
      if (const std::string problem = operator_problem(record.programs[p], op); !problem.empty())
        return fmt::format("program {}, operator {}: {}", p, op, problem);
  if (record.tracks.empty()) return "no rank was recorded";
  for (std::size_t t = 0; t < record.tracks.size(); ++t) {
    const RecordedTrack& track = record.tracks[t];
    if (t > 0 && track.rank <= record.tracks[t - 1].rank)
      return fmt::format("rank {}: ranks must ascend", track.rank.value);
    if (const std::string problem = track_problem(record, track); !problem.empty())
      return fmt::format("rank {}: {}", track.rank.value, problem);
  }
  return {};
}

Record parse_record(std::string_view text, const std::string& name) {
  if (const auto bad = find_bad_byte(text))
    throw InputError(SourcePosition{.file = name},
                     fmt::format("byte {}: {}", bad->offset, bad->problem));
  return RecordReader{text, name}.read();
}

Record read_record(const std::string& path) {
  return parse_record(load_text(path, largest_file), path);
}

}  // namespace sim
