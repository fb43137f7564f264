// The communication operators of a rank: which memory, group, channel and algorithm each one is.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/engine/kernels/algorithms.hpp"
#include "real/engine/kernels/routing_table.hpp"
#include "real/engine/scratch.hpp"
#include "real/host/arena.hpp"
#include "real/net/collectives.hpp"
#include "real/net/transport.hpp"

namespace real {

struct LostContributions;

// Channels of the transport. A communicator has one per stream: two collectives of one group may be
// under way at once on different streams. Messages between stages have one per direction; two ranks
// may be each other's next and previous stage.
inline constexpr std::uint32_t first_stage_channel = 0x40000000;
inline constexpr std::uint32_t first_arrival_channel = 0x50000000;
std::uint32_t collective_channel(std::uint32_t group, sim::Stream stream);
std::uint32_t stage_channel(bool forward);

// RunAlgorithm is the algorithm that runs for a choice: reduce-scatters and all-gathers have a ring
// only, and groups that do not fall into equal nodes have no hierarchy.
struct RunAlgorithm {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  int members_per_node = 0;
};
RunAlgorithm algorithm_for(sim::CollectiveKind kind, AlgorithmChoice choice,
                           std::span<const int> members, int ranks_per_node);

// One operator under way.
class HostExchange {
 public:
  virtual ~HostExchange() = default;
  virtual bool progress() = 0;  // true: finished
};

class Communication {
 public:
  struct Parts {
    const BoundProgram& program;
    const Algorithms& algorithms;
    Transport& transport;
    Arena& arena;
    const StepMemory& memory;
    RoutingTables* routing = nullptr;         // null: routers choose evenly
    const LostContributions* lost = nullptr;  // null: all that ranks contribute arrives
  };
  explicit Communication(const Parts& parts);
  void begin_step(std::int64_t step) { step_ = step; }
  std::unique_ptr<HostExchange> start(const BoundOp& op);
  std::span<const int> members(sim::GroupRole role) const {
    return members_[static_cast<std::size_t>(role)];
  }

 private:
  std::unique_ptr<HostExchange> start_message(const BoundOp& op);
  std::unique_ptr<HostExchange> start_tokens(const BoundOp& op);
  CollectiveCall call_of(const BoundOp& op);
  void place_buffers(const BoundOp& op, CollectiveCall& call);

  Parts parts_;
  std::array<std::vector<int>, sim::group_role_count> members_;
  std::vector<Operand> summed_;  // pieces of gradients
  std::int64_t step_ = 0;
};

}  // namespace real
