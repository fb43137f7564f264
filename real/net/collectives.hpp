// Collectives as sequences of messages: what the host backend runs, one real algorithm each.
//
// Ring: Patarasuk & Yuan 2009. Recursive halving-doubling: Thakur, Rabenseifner & Gropp 2005 (ranks
// beyond the largest power of two fold in first). Double binary tree: Sanders, Speck & Traeff 2009,
// as in NCCL. Hierarchical: reduce-scatter inside the node, all-reduce across nodes per rail,
// all-gather inside. All-to-all: pairwise, ring shift: to the next member, whatever the algorithm
// says.
//
// Every element is reduced in one order, on one rank, and then copied: all ranks get the same bits,
// and every run does. `average` divides the sum by the number of members once, at the end.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "real/net/transport.hpp"
#include "sim/program/program.hpp"

namespace real {

enum class Reduction : std::uint8_t { sum, average, maximum };
enum class CollectiveAlgorithm : std::uint8_t { ring, tree, halving_doubling, hierarchical };

struct CollectiveCall {
  sim::CollectiveKind kind = sim::CollectiveKind::all_reduce;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::ring;
  Reduction reduction = Reduction::sum;
  sim::DType dtype = sim::DType::fp32;  // fp32, or raw bytes where nothing is reduced
  std::span<const int> members{};       // world ranks in communicator order; outlives the run
  int members_per_node = 0;   // consecutive members of one node: hierarchical; tree (0: 1)
  int root = 0;               // broadcast, reduce: a position in `members`
  std::uint32_t channel = 0;  // one per communicator and stream
  // NCCL's conventions: of an all-gather `output` is whole and `input` this rank's part, of a
  // reduce-scatter the other way round. In place: of an all-reduce or broadcast, input == output;
  // of an all-gather, input is the own part of output; of a reduce-scatter, output is the own part
  // of input. An empty input means in place (not for reduce-scatter and all-to-all). A broadcast
  // reads `input` at the root only, a reduce writes `output` at the root only.
  std::span<const std::byte> input{};
  std::span<std::byte> output{};
};

// A collective under way: a state machine that its rank polls between kernels. Destroyed before it
// is through, it withdraws its messages.
class CollectiveRun {
 public:
  virtual ~CollectiveRun() = default;
  // Sends, receives and reduces what is possible now. True: finished.
  virtual bool progress() = 0;
  virtual std::uint64_t bytes_sent() const = 0;  // so far, by this rank, without frame headers
};

// REQUIRES: transport.rank() is a member. Throws std::invalid_argument for an algorithm that the
// kind does not have (all-reduce: all; reduce-scatter and all-gather: ring; broadcast, reduce: tree
// or ring; barrier: tree; all-to-all, ring shift: any word), for sizes that do not fit together,
// and for a reduction of anything but fp32.
std::unique_ptr<CollectiveRun> start_collective(Transport& transport, const CollectiveCall& call);

}  // namespace real
