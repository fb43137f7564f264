// Linears whose products are cut by slices of tokens, beside which the tensor group moves slices
// through symmetric memory.
#pragma once

#include "sim/plan/block/block_part.hpp"
#include "sim/plan/block/interning.hpp"

namespace sim::lowering {

class SlicedLinears : BlockPart {
 public:
  explicit SlicedLinears(BlockTools& tools) : BlockPart{tools} {}

  void intern_slices(const ShardedOp& op, OpWork& work);
  Value forward_sliced(Frame& frame, std::size_t i, const SlicedWork& work, Value x);
  Value gathered_gradient(Frame& frame, std::size_t i, Value& gradient);
  Value scattered_gradient(Frame& frame, std::size_t i, const Value& gradient);

 private:
  struct Side;
  SlicedWork intern_sliced(const SlicedPass& pass, const ShardedOp& op);
  Bytes symmetric_bytes() const;
  static Side forward_side(const Frame& frame, std::size_t i);
  static Side gradient_side(const Frame& frame, std::size_t i);
  Value multiply_gathered(const Frame& frame, std::size_t i, const SlicedWork& work,
                          const Side& side, Value& tokens);
  Value multiply_scattered(Frame& frame, std::size_t i, const SlicedWork& work, const Side& side,
                           const Value& operand);

  BufferId symmetric_memory_{none};
};

}  // namespace sim::lowering
