// Workers and parameter servers as a queueing network: what Layout::servers is simulated by.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/layout/layout.hpp"
#include "sim/sharing/max_min.hpp"

namespace sim {

// Gradients of a bucket, and what comes back for them.
struct ServerMessage {
  Duration ready{};          // after the step has begun, on a worker of slowness 1
  Bytes pushed{}, pulled{};  // of one worker
  Duration update{};         // of the servers, for one worker's gradients
};

// Links by number; weight 65536: all bytes pass.
struct ServerRoute {
  std::vector<ResourceUse> links;
  std::int64_t rate = 1;  // most that one message gets, bytes/s
};

struct ServerWorker {
  double slowness = 1;  // its kernels take so many times as long
  ServerRoute push, pull;
};

// Servers hold even shares, so a message goes to all of them at once, a part to each, and they take
// equally long: they are one queue, in the order of arrival.
struct ServerSystem {
  Servers mode = Servers::asynchronous;
  int staleness = 0;   // bounded
  Duration compute{};  // kernels of a step before an exchange must be through
  Duration tail{};     // kernels behind it: of synchronous workers the optimizer
  Duration latency{};  // of a message, each way
  double jitter = 0;   // standard deviation of ln(compute), per worker and step
  std::uint64_t seed = 1;
  std::vector<ServerMessage> messages;  // in the order in which they are sent
  std::vector<ServerWorker> workers;
  std::vector<std::int64_t> capacities;  // of links, bytes/s
};

}  // namespace sim
