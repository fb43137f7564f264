// Events of a rank in the order of the file, and how they are put in order and linked.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/trace/trace_file.hpp"

namespace sim {

struct PendingHost {
  HostSpan span;
  std::int64_t id = -1;  // of an operator: its own; of a call of the runtime: its correlation
};
struct PendingDevice {
  DeviceActivity activity;
  std::int64_t correlation = -1;
};

// Where an event is, for arrows that bind to it.
struct EventPlace {
  std::int64_t process = -1, thread = -1;
  TimePoint at;
  auto operator<=>(const EventPlace&) const = default;
};
struct PendingFlow {
  std::int64_t id = -1;
  EventPlace place;
  bool begins = false;
};
// An entry without a correlation of its own.
struct Unbound {
  EventPlace place;
  std::uint32_t index = 0;
};

// Deques: a list of gigabytes that grows is there twice while it is moved.
struct PendingRank {
  std::deque<PendingHost> host;
  std::deque<PendingDevice> device;
  std::vector<std::pair<std::int64_t, std::int32_t>> works;  // of an operator, by its id
  std::vector<std::pair<std::int64_t, std::int32_t>> calls;  // the same
  // Collectives of a library on the host: indices of `host`, and into RunRank::calls.
  std::vector<std::pair<std::uint32_t, std::int32_t>> backend_calls;
  bool on_host = false;            // `device` has operators of the host, whose kinds are known
  std::vector<PendingFlow> flows;  // while no kernel has a correlation
  std::vector<Unbound> unbound_device, unbound_host;
};

// link_rank moves what is pending to `rank`, whose products, works and calls are there. Kernels
// find the call that launched them by its correlation, and the operator by its number, or else as
// the innermost one around that call.
void link_rank(PendingRank& pending, RunRank& rank, const TraceNames& names, LeftOut& left);

}  // namespace sim
