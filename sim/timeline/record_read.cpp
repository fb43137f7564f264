// The reader of records: strict, since what it returns is compared without looking again.
#include <fmt/format.h>

#include <utility>

#include "sim/config/text_check.hpp"
#include "sim/timeline/record_format.hpp"
#include "sim/timeline/record_scan.hpp"

namespace sim {
namespace {

constexpr std::size_t largest_file = std::size_t{1} << 30;

class RecordReader : RecordScan {
 public:
  using RecordScan::RecordScan;

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
  void read_entry(std::string_view key) {
    RecordOrigin& origin = record_.origin;
    if (key == "format") {
      if (scan_.text() != "stepcast record") scan_.fail("this is no record of stepcast");
    } else if (key == "version") {
      version_ = scan_.integer();
      if (version_ < 1 || version_ > record_version)
        scan_.fail(fmt::format("version {} of the format; this program reads 1 to {}", version_,
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

  // ---- Programs.
  Kernel kernel() {
    Kernel k;
    row(version_ == 1 ? kernel_columns_of_1 : kernel_columns, [&](std::size_t column) {
      if (version_ == 1 && column == 5) {
        if (flag()) k.attention = AttentionKernel::flash_2;
        return;
      }
      switch (version_ == 1 && column > 5 ? column - 1 : column) {
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
          k.attention = word(attentions_);
          break;
        case 5:
          k.m = number<std::int64_t>(0, largest_size);
          break;
        case 6:
          k.n = number<std::int64_t>(0, largest_size);
          break;
        case 7:
          k.k = number<std::int64_t>(0, largest_size);
          break;
        case 8:
          k.batch = number<std::int64_t>(0, largest_size);
          break;
        case 9:
          k.heads = number<std::int64_t>(0, largest_size);
          break;
        case 10:
          k.kv_heads = number<std::int64_t>(0, largest_size);
          break;
        case 11:
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

  Record record_;
};

}  // namespace

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
