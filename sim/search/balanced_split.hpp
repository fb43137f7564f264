// Layers over the chunks of a pipeline so that the longest chunk takes as little as can be.
#pragma once

#include <cstdint>
#include <vector>

namespace sim {

// Costs of a chunk, or of a block that is part of one.
struct ChunkLoad {
  std::int64_t time = 0;    // ps, of all passes of a micro-batch
  std::int64_t states = 0;  // bytes of parameters, gradients and optimizer
  std::int64_t held = 0;    // bytes of activations kept for one micro-batch
  ChunkLoad& operator+=(const ChunkLoad& other) {
    time += other.time;
    states += other.states;
    held += other.held;
    return *this;
  }
};

struct SplitProblem {
  ChunkLoad input{}, output{};  // of the first chunk and of the last, beside their layers
  bool has_input = false, has_output = false;  // then that chunk may be without layers
  // A layer by its place in a chunk, of which recomputation depends: layers[place][layer]. The last
  // entry is for all further places.
  std::vector<std::vector<ChunkLoad>> layers{};
  std::vector<std::int64_t> alive{};  // micro-batches that each chunk keeps activations of
  std::int64_t memory = 0;            // bytes of each chunk
  // By chunk, where devices differ: the time on its device over that of `layers`, and bytes.
  std::vector<double> slowness{};
  std::vector<std::int64_t> memories{};
};

// The number of layers of each chunk: of all contiguous splits within the memory one whose longest
// chunk takes least; of these, one whose squared times add up to least, and of these the first in
// alphabetical order. Empty: none is within the memory. By dynamic programming, exactly:
// O(chunks x layers^2).
std::vector<int> balanced_split(const SplitProblem& problem);

}  // namespace sim
