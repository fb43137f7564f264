// Which NCCL communicators a rank makes, and in which order. CUDA-free.
//
// One per group and stream that uses it: operations of one communicator must be launched one after
// another, and two streams would run them side by side. A message between stages has one per
// direction and kind, of two ranks. Hierarchical all-reduces have one of the node and one of the
// rail instead.
//
// Making a communicator is collective. Every rank makes its own in ascending `Communicator::order`,
// which all ranks know: of the ranks that wait, those at the lowest order wait for nobody else, so
// it cannot deadlock.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "real/engine/bound_program.hpp"
#include "real/engine/kernels/algorithms.hpp"

namespace real {

enum class CommunicatorKind : std::uint8_t { group, node, rail, message };

struct Communicator {
  CommunicatorKind kind = CommunicatorKind::group;
  sim::Stream stream = sim::Stream::compute;  // of this rank: the one that uses it
  sim::GroupRole role = sim::GroupRole::world;
  AlgorithmChoice algorithm = AlgorithmChoice::automatic;
  std::vector<int> members{};                      // world ranks in the order of the communicator
  std::vector<sim::CollectiveKind> collectives{};  // that it is for, ascending; of a message none
  int position = 0;                                // of this rank in it
  // (group or 2^32 + pair, stream of the lower end, kind and part): equal on all members, distinct
  // between communicators.
  std::array<std::uint64_t, 3> order{};
  std::string name() const;  // "data on data_comm, ranks 0 2": of messages about it
};

// Sorted by `order`. REQUIRES: algorithm_problems() is empty.
std::vector<Communicator> communicators_of(const BoundProgram& program,
                                           const Algorithms& algorithms);

// Requests for algorithms that NCCL cannot meet, one sentence each.
std::vector<std::string> algorithm_problems(const sim::Plan& plan, const Algorithms& algorithms);

// The value of NCCL_ALGO that chooses an algorithm for all-reduces, and leaves the other
// collectives to NCCL; null: its own choice. NCCL reads it whenever a communicator is made
// (ncclTopoTuneModel in src/graph/tuning.cc); "function:algorithm" since 2.24.
const char* nccl_algorithm(AlgorithmChoice algorithm);

}  // namespace real
