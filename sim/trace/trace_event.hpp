// One event of a trace in the format of chrome://tracing, as the PyTorch profiler and Stepcast
// write it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/config/streamed_json.hpp"
#include "sim/trace/op_shapes.hpp"

namespace sim {

// A time of a trace, exact: microseconds since its base, and picoseconds. Those since 1970 are too
// many picoseconds for a TimePoint.
struct TraceTime {
  std::int64_t microseconds = 0;
  std::int32_t picoseconds = 0;  // 0 .. 999,999
  bool operator==(const TraceTime&) const = default;
};
// The longest time between two events: within the range of Duration.
inline constexpr std::int64_t longest_microseconds = 4'000'000'000'000;

// trace_time is that of a number of JSON; digits beyond the picosecond are rounded off. Empty: more
// than 1e18 us.
std::optional<TraceTime> trace_time(std::string_view number);

enum class EventKind : std::uint8_t {
  kernel,
  copy,
  set,
  op,
  runtime,  // also of the driver, also HIP's
  mark,     // of the user
  python,
  garbage,
  flow,   // from a launch to its kernel
  other,  // of another category
  slice,  // Stepcast's own: no category of a profiler
};

// A collective, by the metadata of NCCL's kernels and of record_param_comms.
struct EventCollective {
  std::string operation{};  // as PyTorch names it; empty: no communication
  std::string dtype{}, group{}, description{};
  std::string ranks{};  // "[0, 1]"; shortened with "..." where it is long
  std::int64_t in_elements = 0, out_elements = 0;
  int group_size = 0;
};

// An operator of one rank, as Stepcast writes it (`--trace`).
struct EventSlice {
  std::int64_t op = -1;                         // of the rank's program
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  // of a product
  std::string operation;                        // of a collective: "all_reduce"
  std::string group;                            // its role: "tensor"
  std::int64_t bytes = -1;                      // of a collective or a message; -1: neither
};

struct TraceEvent {
  std::string phase, category, name;
  EventKind kind = EventKind::other;
  std::optional<TraceTime> at;
  double microseconds = 0;  // of duration, for messages
  TraceTime duration;
  std::int64_t process = -1, thread = -1;  // -1: none, or text
  std::int64_t external = -1;              // of the operator that issued it
  std::int64_t correlation = -1;           // with the call that launched it
  std::int64_t stream = -1;                // of the device
  std::int64_t device = -1;
  std::int64_t flow = -1;
  ShapedOperator op;  // its shapes, where has_known_work()
  EventCollective collective;
  EventSlice slice;

  void clear();
};

// read_event reads the next value of the list of events. False: it is no object. Throws InputError.
bool read_event(StreamedJson& scan, TraceEvent& event);

// Ranks of "[0, 1, 2]"; empty where it is shortened.
std::vector<std::int64_t> ranks_in(std::string_view text);

// Other programs write other types: what is not as expected, and a number beyond 1e18, leaves `to`
// as it was.
void text_if(StreamedJson& scan, std::string& to);
void integer_if(StreamedJson& scan, std::int64_t& to);

}  // namespace sim
