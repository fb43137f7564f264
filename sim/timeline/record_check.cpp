// Checks of a record: numbers beyond their tables, spans out of order.
#include <fmt/format.h>

#include <array>

#include "sim/timeline/record_format.hpp"

namespace sim {
namespace {

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

}  // namespace sim
