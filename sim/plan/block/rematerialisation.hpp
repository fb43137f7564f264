// What a block does not keep (sharding/kept_set.hpp) is made again before its backward pass has
// come to the operators that read it.
#pragma once

#include "sim/plan/block/block_forward.hpp"

namespace sim::lowering {

class Rematerialisation : BlockPart {
 public:
  Rematerialisation(BlockTools& tools, BlockForward& forward)
      : BlockPart{tools}, forward_{forward} {}

  // Runs the replays of the block that have to run before the backward pass of operator i.
  void run_before(Frame& backward, std::size_t i);

 private:
  void run(Frame& backward, int at);
  Value run_kept(Frame& again);
  Value run_parts(Frame& again);
  void hand_out(const Frame& frame, int at, const Value& made);

  BlockForward& forward_;
};

}  // namespace sim::lowering
