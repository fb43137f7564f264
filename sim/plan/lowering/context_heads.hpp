// Attention over context-parallel ranks by all-to-all: all tokens of a share of the heads.
#pragma once

#include <span>

#include "sim/plan/lowering/context_steps.hpp"

namespace sim::lowering {

class HeadExchange : BlockPart {
 public:
  HeadExchange(BlockTools& tools, ContextSteps& steps) : BlockPart{tools}, steps_{steps} {}

  void intern_heads(const ShardedOp& op, ContextWork& work);
  Value forward_heads(Frame& frame, std::size_t i, Value x);
  Value backward_heads(Frame& frame, std::size_t i, Value gradient);

 private:
  Value exchange_heads(const Frame& frame, std::size_t i, const Value& tensor,
                       std::span<const ContextWork::Heads> parts);

  ContextSteps& steps_;
};

}  // namespace sim::lowering
