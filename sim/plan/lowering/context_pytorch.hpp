// Attention over context-parallel ranks as PyTorch's context_parallel has it.
#pragma once

#include "sim/plan/lowering/context_steps.hpp"

namespace sim::lowering {

class PyTorchContext : BlockPart {
 public:
  PyTorchContext(BlockTools& tools, ContextSteps& steps) : BlockPart{tools}, steps_{steps} {}

  void intern_pytorch_context(const ShardedOp& op, ContextWork& work);
  Value forward_gathered(Frame& frame, std::size_t i, Value x);
  Value backward_pytorch(Frame& frame, std::size_t i, Value gradient);

 private:
  Value own_gradients(const Frame& frame, std::size_t i, const Value& gradient);
  Value next_slice(const Frame& frame, std::size_t i, const Value& slice);
  Value send_gradients(const Frame& frame, std::size_t i, const Value& sum, Value& out, bool home);

  ContextSteps& steps_;
};

}  // namespace sim::lowering
