// The host backend: float32 on one core per rank, messages for communication.
//
// A rank is one thread. It looks at the heads of all streams, lets communication progress, and runs
// the next ready kernel to its end, so a step is deterministic up to the times in it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "real/engine/backend.hpp"
#include "real/engine/kernels/algorithms.hpp"
#include "real/engine/kernels/routing_table.hpp"
#include "real/net/heartbeat.hpp"
#include "real/net/transport.hpp"

namespace real {

class ParameterServers;

struct HostSetup {
  const BoundProgram* program = nullptr;  // outlives the backend, as the transport does
  Transport* transport = nullptr;
  sim::Training training;
  Algorithms algorithms;
  Heartbeat* heartbeat = nullptr;       // told of every operator; may be null
  ParameterServers* servers = nullptr;  // of all ranks, where the layout has some
  // Routers choose by their scores; else evenly. The plan has room
  // (real/engine/kernels/routed_layout.hpp).
  std::optional<RouterScore> routing{};
  // lost_rate: the share of what ranks give to averages that is lost, drawn by training.seed
  // (partial_average.hpp).
  double lost_rate = 0;
};

// Operators that this backend cannot execute beyond engine_problems(): those in other formats than
// fp32.
std::vector<std::string> host_problems(const sim::Plan& plan, const sim::Model& model);

// A step whose gradient norm is not finite changes no weights: it is run a second time, with every
// result looked at, to find the first operator that made such a number.
// Throws OutOfMemory, and from step() what the transport throws.
std::unique_ptr<Backend> make_host_backend(const HostSetup& setup);

}  // namespace real
