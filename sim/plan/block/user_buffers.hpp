// Linears whose products are cut into parts, beside which the tensor group communicates in user
// buffers.
#pragma once

#include "sim/plan/block/block_part.hpp"
#include "sim/plan/block/interning.hpp"

namespace sim::lowering {

class UserBufferLinears : BlockPart {
 public:
  explicit UserBufferLinears(BlockTools& tools) : BlockPart{tools} {}

  void intern_user_buffers(const ShardedOp& op, UserBufferWork& work);
  Value forward_exchanged(Frame& frame, std::size_t i, Value x);
  Value forward_scattered(Frame& frame, std::size_t i, Value x);
  Value backward_exchanged(Frame& frame, std::size_t i, Value& gradient);
  void place_saved_input(const Frame& frame, std::size_t i);
  void transpose_gradient(const Frame& frame, std::size_t i, const Value& gradient);

 private:
  void place_gradient(const Frame& frame, std::size_t i, const Value& gradient);
};

}  // namespace sim::lowering
