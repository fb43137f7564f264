// The steps that attention over context-parallel ranks is made of.
#pragma once

#include "sim/plan/lowering/block_part.hpp"

namespace sim::lowering {

class ContextSteps : BlockPart {
 public:
  explicit ContextSteps(BlockTools& tools) : BlockPart{tools} {}

  ContextForm form() const { return runs_.context; }
  bool gathers_slices() const {
    return layout_.context_exchange == ContextExchange::all_gather &&
           form() != ContextForm::transformer_engine;
  }
  void intern_slices(const ContextAttention& context, ContextWork& work);
  OpId exchange(const Frame& frame, std::size_t i, std::uint32_t work, Action action);
  Value gather_keys(const Frame& frame, std::size_t i, BufferId qkv);
  // Attention of the rank's own block of scores, and of those with a slice of another rank.
  Value attend_own(const Frame& frame, std::size_t i, const Value& x, const Value& log_sum_exp);
  void attend_slice(Frame& frame, std::size_t i, const Value& x, const Value& slice,
                    const Value& out, const Value& log_sum_exp, int step);
  Value attend_backward(Frame& frame, std::size_t i, const Value& gradient, Value& slice,
                        bool last);
  void merge_gradients(const Frame& frame, std::size_t i, const Value& part, const Value& out,
                       Value& keys_gradient, bool last);
  // Compiled: kernels wait where the exchange was called.
  void wait_in_graph(OpId exchanged);
};

}  // namespace sim::lowering
