// Blocks of which only the input is kept, and that run again before their backward pass.
#pragma once

#include <vector>

#include "sim/plan/block/block_forward.hpp"

namespace sim::lowering {

class Recomputation : BlockPart {
 public:
  Recomputation(BlockTools& tools, BlockForward& forward);

  void keep_input(const StageBlock& block, int microbatch, const Value& x);
  // Keeps the outputs of a block that need not be computed again; the operator added last writes
  // them.
  void keep_outputs(const StageBlock& block, int microbatch);
  // The input of a block that runs again; no buffer: it keeps none.
  BufferId checkpoint_of(const StageBlock& block, int microbatch) const;
  // `again`: the frame of Pass::recompute.
  void recompute_block(Frame again, int microbatch);

 private:
  std::uint32_t checkpoint_index(const StageBlock& block, int microbatch) const;

  BlockForward& forward_;
  std::vector<Value> checkpoints_;      // by block and micro-batch
  std::vector<BufferId> kept_outputs_;  // the same
};

}  // namespace sim::lowering
