// The exchange between a worker and the parameter servers (Layout::servers): its messages, and the
// work of the servers.
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"
#include "sim/layout/layout.hpp"

namespace sim {

struct ServerBytes {
  Bytes pushed{};   // gradients
  Bytes pulled{};   // sums of gradients, or parameters
  Bytes updated{};  // memory that the servers read and write for the gradients of one worker
  Bytes held{};     // on the servers, between steps
};

// Bytes of the exchange of so many parameters. A sum is read and written once and a gradient read
// (BytePS, section 5: servers add up on CPUs). An update reads the gradient, master and moments and
// writes master and moments, and the parameters that go back are written (as HostOptimizer counts).
// REQUIRES: layout.has_servers().
ServerBytes server_bytes(const Layout& layout, std::int64_t parameters);

// How many of those that a GPU of a worker owns of a bucket travel at a time: Layout::
// server_partition is of the gradients of the whole worker (bytedance/byteps at f5df52fe,
// common/global.cc and docs/env.md: BYTEPS_PARTITION_BYTES, of a tensor, 4096000).
// REQUIRES: layout.has_servers(), parameters > 0.
std::int64_t server_part(const Layout& layout, std::int64_t parameters);

// The share of the parameters on all servers of the workers' nodes together; the rest lies on the
// machines of their own. `balanced`: n workers' nodes have (n^2 - n k) / (n^2 + n k - 2 k) of it
// beside k machines, so that all network cards carry as much (Jiang et al. 2020, section 4.1). With
// k > n all of it lies on the machines.
// REQUIRES: layout.has_servers(), nodes >= 1.
double share_on_workers(const Layout& layout, int nodes);

// The shares of the parameters on each of the workers' nodes, and on each machine.
struct ServerShares {
  int nodes = 1;  // of workers
  double of_node = 0, of_machine = 0;
};
// REQUIRES: layout.has_servers(), gpus_per_node >= 1.
ServerShares server_shares(const Layout& layout, int gpus_per_node);

}  // namespace sim
