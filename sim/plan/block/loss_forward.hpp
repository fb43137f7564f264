// The forward pass of the loss, and what it keeps.
#pragma once

#include "sim/plan/block/block_part.hpp"

namespace sim::lowering {

class LossForward : BlockPart {
 public:
  explicit LossForward(BlockTools& tools) : BlockPart{tools} {}
  Value forward_loss(Frame& frame, std::size_t i, Value x);

 private:
  void keep_loss(Frame& frame, std::size_t i, const Value& x);
};

}  // namespace sim::lowering
