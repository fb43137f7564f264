// A micro-batch in a block, and what its operators keep between their passes.
#pragma once

#include <cstdint>

#include "sim/plan/block/op_work.hpp"
#include "sim/plan/lowering/stage_blocks.hpp"

namespace sim::lowering {

// Saved holds the tensors that an operator of a block keeps between its forward and backward pass.
struct Saved {
  BufferId input{none};    // its input, kept instead of freed
  BufferId extra{none};    // saved tensors other than input and output
  BufferId core{none};     // attention tensors that selective recomputation has made again
  BufferId output{none};   // its output, where the backward pass reads it
  Value held{};            // its output, where it does not run again
  Value replay_input{};    // its input, where operators run again from here on
  BufferId outputs{none};  // of all operators that run again: those kept (of the first operator)
  BufferId weights{none};  // of choices, where an expert's activation multiplies by them
  BufferId keys{none};     // the slice that came last, where attention goes round a ring
  BufferId target_logit{none}, exponential_sum{none}, maximum{none};  // of the loss
  // Until the split-off weight gradient: the gradient of the operator's output, and of the tokens
  // that this rank adds the bias to, where those are fewer.
  BufferId gradient{none}, bias_gradient{none};
};

struct Frame {  // a micro-batch in a block
  const StageBlock* block = nullptr;
  const ShardedBlock* shape = nullptr;
  const BlockWork* work = nullptr;
  Saved* saved = nullptr;
  OpLabel label{};
  Pass pass = Pass::forward;
  const KeptSet* kept = nullptr;
  const Replay* replay = nullptr;  // that is under way (Pass::recompute)
  int piece = 0, pieces = 1;       // of the micro-batch, one after the other (Replay::pieces)
  bool is_last_piece() const { return piece + 1 == pieces; }
  bool keep = true;
  bool runs(std::size_t i) const { return replay == nullptr || replay->runs(i); }
  bool ends_in_adapter_of(std::size_t i) const {
    return replay != nullptr && replay->ends_in_adapter && i == replay->ops.back();
  }
};

// Operators of a block that follow each other; `end` is behind the last.
struct OpRange {
  std::size_t begin = 0, end = 0;
};

// The number of operator i of the block among those of the stage.
inline std::uint32_t site(const Frame& frame, std::size_t i) {
  return frame.block->first_op + static_cast<std::uint32_t>(i);
}

// The first operator of the model has nobody to hand a gradient to.
inline bool needs_input_gradient(const Frame& frame, std::size_t i) {
  const int from = frame.shape->ops[i].op->starts_from;
  if (from >= 0) return needs_input_gradient(frame, static_cast<std::size_t>(from));
  if (i > 0) return true;
  // With adapters nothing in front of the first layer is trained; a norm stands at its head.
  const bool ends = frame.block->layer == 0 && frame.shape->ops[i].ends_gradient;
  return !frame.block->is_first && !ends;
}

// By operator of the block under way: the tensor and the gradient that go past the branch that it
// begins; the gradient that a second branch made of its input.
struct BranchTensors {
  std::vector<Value> past, gradient_past, lent_gradient;
};

}  // namespace sim::lowering
