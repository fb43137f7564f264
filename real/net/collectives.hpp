// Collectives as sequences of messages: what the host backend runs, one real algorithm each.
//
// Ring: Patarasuk & Yuan 2009. Recursive halving-doubling: Thakur, Rabenseifner & Gropp 2005 (ranks
// beyond the largest power of two fold in first). Double binary tree: Sanders, Speck & Traeff 2009,
// as in NCCL. Hierarchical: reduce-scatter inside the node, all-reduce across nodes per rail,
// all-gather inside.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "real/net/transport.hpp"
#include "sim/plan/program.hpp"

namespace real {

enum class Reduction : std::uint8_t { sum, average, maximum };
enum class CollectiveAlgorithm : std::uint8_t { ring, tree, halving_doubling, hierarchical };

struct CollectiveCall {
  sim::CollectiveKind kind = sim::CollectiveKind::all_reduce;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  Reduction reduction = Reduction::sum;
  sim::DType dtype = sim::DType::fp32;  // fp32, or raw bytes where nothing is reduced
  std::span<const int> members;         // world ranks in communicator order; outlives the run
  int members_per_node = 0;             // hierarchical: consecutive members of one node
  std::uint32_t channel = 0;            // one per communicator and stream
  // NCCL's conventions: of an all-gather `output` is whole and `input` this rank's part, of a
  // reduce-scatter the other way round; input may be the own part of output (in place).
  std::span<const std::byte> input;
  std::span<std::byte> output;
};

// A collective under way: a state machine that its rank polls between kernels.
class CollectiveRun {
 public:
  virtual ~CollectiveRun() = default;
  // Sends, receives and reduces what is possible now. True: finished.
  virtual bool progress() = 0;
  virtual std::uint64_t bytes_sent() const = 0;
};

// REQUIRES: transport.rank() is a member. Throws std::invalid_argument for an algorithm that the
// kind does not have (reduce-scatter and all-gather: ring; broadcast, reduce: tree or ring;
// barrier: tree).
std::unique_ptr<CollectiveRun> start_collective(Transport& transport, const CollectiveCall& call);

}  // namespace real
