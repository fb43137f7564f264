// A Timeline on file, with what is needed to read it without its plan: a record. The simulator and
// the real engine write the same format (sim/timeline/RECORD.md), so that two runs of any kind can
// be put side by side.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/plan/plan.hpp"
#include "sim/timeline/timeline.hpp"

namespace sim {

// Where a timeline comes from. All of it is optional but `scenario`.
struct RecordOrigin {
  std::string scenario{};  // name
  std::string date{};      // ISO 8601; of simulations empty: the same input, same file
  std::string machine{};   // host and device that it ran on, or the cluster's name
  std::vector<std::string> provenance{};  // one line each: versions, parameter sets, seeds
  int gpus_per_node = 1;                  // for names of ranks
  // Measured steps: how long each took (the recorded one is one of them).
  std::vector<Duration> steps{};
};

struct RecordedTrack {
  RankId rank{};
  std::uint32_t represents = 1;
  std::uint32_t program = 0;  // index into Record::programs
  RankCoordinates at{};
  Bytes peak_memory{};        // 0: not known
  std::vector<Span> spans{};  // one per operator, in issue order; those of a stream do not overlap
};

struct Record {
  RecordOrigin origin;
  std::string engine{};  // "simulated", "host", "cuda"
  TimePoint end{};       // of the step, over all ranks
  int world_size = 0;
  bool pipeline = false;  // more than one stage
  // Programs that ran, without dependencies, buffers, sites and parameter buckets: kind, stream,
  // pass, work, action, label, names, kernels, collectives, transfers.
  std::vector<Program> programs{};
  std::vector<RecordedTrack> tracks{};  // ascending rank
  std::vector<CollectiveSummary> collectives{};
};

// REQUIRES: every track has one span per operator of its program.
Record make_record(const Plan& plan, const Timeline& timeline, RecordOrigin origin);

// To a file, which appears under its name only when it is complete. Throws std::runtime_error.
void write_record(const std::string& path, const Record& record);
std::string to_text(const Record& record);

// Throws InputError for what is no record, and for one that contradicts itself.
Record read_record(const std::string& path);
Record parse_record(std::string_view text, const std::string& name);

}  // namespace sim
