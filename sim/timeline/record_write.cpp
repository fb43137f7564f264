// The writer of records; RECORD.md describes the format.
#include <algorithm>
#include <array>
#include <sstream>

#include "sim/base/check.hpp"
#include "sim/base/complete_file.hpp"
#include "sim/config/input_log.hpp"
#include "sim/timeline/json_stream.hpp"
#include "sim/timeline/record.hpp"
#include "sim/timeline/record_format.hpp"

namespace sim {
namespace {

class RecordWriter {
 public:
  RecordWriter(std::ostream& out, const Record& record) : json_{out}, record_{record} {}

  void write() {
    json_.text("{\"format\":\"stepcast record\",\"version\":");
    json_.integer(record_version);
    write_origin();
    key("words");
    write_words();
    key("programs");
    rows(record_.programs, [&](const Program& program) { write_program(program); });
    key("tracks");
    rows(record_.tracks, [&](const RecordedTrack& track) { write_track(track); });
    key("collectives");
    rows(record_.collectives, [&](const CollectiveSummary& summary) { write_summary(summary); });
    json_.text("\n}\n");
    json_.flush();
  }

 private:
  void key(const char* name) {
    json_.text(",\n\"");
    json_.text(name);
    json_.text("\":");
  }
  void number(const char* name, std::int64_t value) {
    key(name);
    json_.integer(value);
  }
  void words(const char* name, const std::string& value) {
    key(name);
    json_.quoted(value);
  }
  template <class Items, class Write>
  void items(const Items& all, Write write) {
    json_.text("[");
    bool first = true;
    for (const auto& item : all) {
      if (!first) json_.text(",");
      first = false;
      write(item);
    }
    json_.text("]");
  }
  template <class Items, class Write>
  void rows(const Items& all, Write write) {  // one per line
    items(all, [&](const auto& item) {
      json_.text("\n");
      write(item);
    });
  }
  template <std::size_t count>
  void row(const std::array<std::int64_t, count>& values) {
    items(values, [&](std::int64_t value) { json_.integer(value); });
  }
  void texts(const std::vector<std::string>& all) {
    items(all, [&](const std::string& text) { json_.quoted(text); });
  }

  void write_origin() {
    const RecordOrigin& origin = record_.origin;
    words("scenario", origin.scenario);
    words("engine", record_.engine);
    words("date", origin.date);
    words("machine", origin.machine);
    key("provenance");
    texts(origin.provenance);
    number("gpus_per_node", origin.gpus_per_node);
    key("steps_ps");
    items(origin.steps, [&](Duration step) { json_.integer(step.count()); });
    number("world_size", record_.world_size);
    number("pipeline", record_.pipeline ? 1 : 0);
    number("end_ps", record_.end.time_since_epoch().count());
  }

  template <class Enum>
  void write_list(const char* name, bool first = false) {
    json_.text(first ? "\n\"" : ",\n\"");
    json_.text(name);
    json_.text("\":");
    items(words_of(Enum{}), [&](const auto& entry) { json_.quoted(entry.text); });
  }
  void write_words() {
    json_.text("{");
    write_list<OpKind>("kind", true);
    write_list<Stream>("stream");
    write_list<Pass>("pass");
    write_list<DType>("dtype");
    write_list<CollectiveKind>("operation");
    write_list<GroupRole>("group");
    write_list<AttentionKernel>("attention");
    json_.text("}");
  }

  void write_program(const Program& program) {
    json_.text("{\"stage\":");
    json_.integer(program.stage);
    key("names");
    texts(program.names);
    key("kernels");
    items(program.kernels, [&](const Kernel& k) {
      row<kernel_columns>({number_of(k.kind), number_of(k.dtype), k.part == AttentionPart::backward,
                           k.causal, number_of(k.attention), k.m, k.n, k.k, k.batch, k.heads,
                           k.kv_heads, k.bytes.count(), k.launches});
    });
    key("flops");
    items(program.kernels, [&](const Kernel& k) { real(k.flops.count()); });
    key("collectives");
    items(program.collectives, [&](const Collective& c) {
      row<4>({number_of(c.kind), number_of(c.group), number_of(c.dtype), c.bytes.count()});
    });
    key("transfers");
    items(program.transfers, [&](const Transfer& t) {
      row<3>({t.peer == Peer::previous_stage, number_of(t.dtype), t.bytes.count()});
    });
    key("operators");
    json_.text("[");
    for (std::uint32_t op = 0; op < program.size(); ++op) {
      json_.text(op == 0 ? "\n" : op % 8 == 0 ? ",\n" : ",");
      const OpLabel& label = program.label[op];
      row<operator_columns>({label.name, number_of(program.kind[op]), number_of(program.stream[op]),
                             number_of(program.pass[op]), label.layer, label.chunk,
                             label.microbatch, program.work[op]});
    }
    json_.text("]}");
  }

  void write_track(const RecordedTrack& track) {
    json_.text("{\"rank\":");
    json_.integer(track.rank.value);
    json_.text(",\"represents\":");
    json_.integer(track.represents);
    json_.text(",\"program\":");
    json_.integer(track.program);
    json_.text(",\"at\":");
    row<3>({track.at.tensor, track.at.data, track.at.pipeline});
    json_.text(",\"peak_memory\":");
    json_.integer(track.peak_memory.count());
    // Three numbers per operator: when it began, how long it waited, how long it ran.
    json_.text(",\"spans_ps\":[");
    for (std::size_t i = 0; i < track.spans.size(); ++i) {
      const Span& span = track.spans[i];
      json_.text(i == 0 ? "\n" : i % 8 == 0 ? ",\n" : ",");
      json_.integer(span.begin.time_since_epoch().count());
      json_.text(",");
      json_.integer((span.active - span.begin).count());
      json_.text(",");
      json_.integer((span.end - span.active).count());
    }
    json_.text("]}");
  }

  void write_summary(const CollectiveSummary& summary) {
    json_.text("{\"operation\":");
    json_.integer(number_of(summary.kind));
    json_.text(",\"group\":");
    json_.integer(number_of(summary.group));
    json_.text(",\"algorithm\":");
    json_.quoted(summary.algorithm);
    json_.text(",\"ranks\":");
    json_.integer(summary.ranks);
    json_.text(",\"count\":");
    json_.integer(static_cast<std::int64_t>(summary.count));
    json_.text(",\"bytes\":");
    json_.integer(summary.bytes.count());
    json_.text(",\"mean_time_ps\":");
    json_.integer(summary.mean_time.count());
    json_.text("}");
  }

  template <class Enum>
  static std::int64_t number_of(Enum value) {
    const auto list = words_of(Enum{});
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i].value == value) return static_cast<std::int64_t>(i);
    SIM_CHECK(false, "an enumerator without a word");
  }
  void real(double value) { json_.text(fmt::format("{}", value)); }  // shortest that reads back

  JsonStream json_;
  const Record& record_;
};

}  // namespace

Record make_record(const Plan& plan, const Timeline& timeline, RecordOrigin origin) {
  Record record{.origin = std::move(origin),
                .engine = timeline.engine,
                .end = timeline.end,
                .world_size = plan.world_size(),
                .pipeline = plan.layout.pipeline_parallel > 1,
                .programs = {},
                .tracks = {},
                .collectives = timeline.collectives};
  for (const Program& program : plan.programs)
    record.programs.push_back(what_ran(program));
  for (const RankTrack& track : timeline.tracks) {
    SIM_CHECK(track.spans.size() == plan.program(track.rank).size(), track.rank.value,
              track.spans.size());
    record.tracks.push_back({.rank = track.rank,
                             .represents = track.represents,
                             .program = plan.program_of_rank[track.rank.value],
                             .at = coordinates_of(plan.layout, track.rank),
                             .peak_memory = {},
                             .spans = track.spans});
  }
  std::sort(record.tracks.begin(), record.tracks.end(),
            [](const RecordedTrack& a, const RecordedTrack& b) { return a.rank < b.rank; });
  const std::string problem = record_problem(record);
  SIM_CHECK(problem.empty(), problem);
  return record;
}

void write_record(const std::string& path, const Record& record) {
  refuse_to_overwrite_input(path);
  write_complete_file(path, [&](std::ostream& out) { RecordWriter{out, record}.write(); });
}

std::string to_text(const Record& record) {
  std::ostringstream out;
  RecordWriter{out, record}.write();
  return std::move(out).str();
}

}  // namespace sim
