// Attention over context-parallel ranks.
#pragma once

#include "sim/plan/lowering/context_heads.hpp"
#include "sim/plan/lowering/context_pytorch.hpp"

namespace sim::lowering {

class ContextParallelAttention : BlockPart {
 public:
  explicit ContextParallelAttention(BlockTools& tools)
      : BlockPart{tools}, steps_{tools}, pytorch_{tools, steps_}, heads_{tools, steps_} {}

  void intern_context(const ShardedOp& op, ContextWork& work);
  Value forward_context(Frame& frame, std::size_t i, Value x);
  Value backward_context(Frame& frame, std::size_t i, Value gradient);

 private:
  Value forward_ring(Frame& frame, std::size_t i, Value x);
  Value backward_ring(Frame& frame, std::size_t i, Value gradient);

  ContextSteps steps_;
  PyTorchContext pytorch_;
  HeadExchange heads_;
};

}  // namespace sim::lowering
