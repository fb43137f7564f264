// The resources of a GPU that the communicators of a rank take, by NCCL's rules.
#pragma once

#include <span>

#include "real/cuda/nccl/communicators.hpp"
#include "sim/topology/cluster.hpp"

namespace real {

struct NcclUse {
  int communicators = 0;
  // Thread blocks (an SM each) of the collectives and messages that may run at once: of each
  // stream those of its widest communicator.
  int blocks = 0;
  sim::Bytes buffers{};
  bool operator==(const NcclUse&) const = default;
};

// NcclUse of what communicators_of() makes on one rank; one for each stream that uses a group, and
// one for each direction of a message (real/cuda/README.md). The forecast counts one for each group
// and one for each neighbour (sim/collective/communicator_memory.hpp), as frameworks have them.
NcclUse nccl_use(std::span<const Communicator> communicators, const sim::Cluster& cluster);

}  // namespace real
