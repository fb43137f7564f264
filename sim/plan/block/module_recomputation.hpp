// Modules of a layer that run again before its backward pass has come to them
// (Layout::recompute_modules; sharding/recomputed_modules.hpp).
#pragma once

#include "sim/plan/block/block_forward.hpp"

namespace sim::lowering {

class ModuleRecomputation : BlockPart {
 public:
  ModuleRecomputation(BlockTools& tools, BlockForward& forward)
      : BlockPart{tools}, forward_{forward} {}

  // Runs the modules that have to run before the backward pass of operator i.
  void run_before(Frame& backward, std::size_t i);

 private:
  void run(Frame& backward, int at);
  Value run_kept(Frame& again, const RecomputedModule& module);
  Value run_parts(Frame& again, const RecomputedModule& module);
  void hand_out(const Frame& frame, int at, const Value& made);

  BlockForward& forward_;
};

}  // namespace sim::lowering
