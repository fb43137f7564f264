// The content of one file of a trace, before it is put together with those of other ranks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/streamed_json.hpp"
#include "sim/timeline/record.hpp"
#include "sim/trace/names.hpp"
#include "sim/trace/trace_event.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

// Entries that a reader did not take, or found odd.
struct LeftOut {
  std::uint64_t python = 0;      // functions
  std::uint64_t negative = 0;    // spans of the host that end before they begin
  std::uint64_t far = 0;         // spans of the host that are too far from the others
  std::uint64_t untimed = 0;     // spans without a time
  std::uint64_t kernels = 0;     // of the device, that were taken
  std::uint64_t unlaunched = 0;  // of those, with no call that launched them
  std::uint64_t early = 0;       // of those, that begin before the call that launched them
  Duration earliest{};           // by how much at most
  std::map<std::string, std::uint64_t> categories{};

  void add(const LeftOut& other);
  std::vector<std::string> notes() const;
};

struct TraceFile {
  std::string name{};  // the path
  std::string maker{};
  std::string engine{};       // of a trace that Stepcast wrote: "simulated"
  std::optional<int> rank{};  // as it says; of a trace of one rank
  int world_size = 0;         // 0: not told
  bool on_host = false;       // no kernels of a GPU: operators of the CPU are its work
  bool numbered = false;      // its ranks have their numbers: of traces that Stepcast wrote
  std::optional<std::int64_t> origin{};  // where its times begin, microseconds since `base`
  std::int64_t base = 0;                 // nanoseconds since 1970
  TracedDevice device{};
  std::vector<TracedGroup> groups{};
  // By group: its ranks as the trace writes them where it shortens them: "[0, 8, ..., 504]".
  std::vector<std::string> shortened{};
  std::vector<RunRank> ranks{};
  std::vector<std::string> versions{};
  LeftOut left{};
  std::vector<std::string> notes{};
};

// Reads JSON in the format of chrome://tracing: of the PyTorch profiler, of Stepcast (`--trace`).
// Throws InputError.
TraceFile read_json_trace(StreamedJson& scan, const std::string& name, TraceNames& names);

// file_of_record: a record (`--record`) as a trace.
TraceFile file_of_record(const Record& record, const std::string& name, TraceNames& names);

// read_nsys: an export of Nsight Systems. Throws InputError.
class SqliteReader;
TraceFile read_nsys(SqliteReader& database, TraceNames& names);

// put_together: the ranks of several files. Throws InputError: ranks of different runs, two traces
// of one rank.
TracedRun put_together(std::vector<TraceFile> files, TraceNames& names);

}  // namespace sim
