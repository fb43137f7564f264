// What operators keep for their backward pass, and when it is freed.
#pragma once

#include "sim/plan/block/frame.hpp"
#include "sim/plan/lowering/lowering_context.hpp"

namespace sim::lowering {

class SavedTensors : StagePart {
 public:
  explicit SavedTensors(LoweringContext& context) : StagePart{context} {}

  // Of the operator added last, which reads `x`.
  void keep_or_free(Frame& frame, std::size_t i, const Value& x);
  void keep_beside(Frame& frame, std::size_t i, Bytes bytes);
  void keep_output(Frame& frame, std::size_t i, const Value& out);
  static bool holds_output(const Frame& frame, std::size_t i);
  static bool is_held(const Frame& frame, std::size_t i);
  // Of a forward pass, under recomputation by modules: a module makes the input again; the operator
  // keeps nothing, as it runs again.
  static bool input_comes_again(const Frame& frame, std::size_t i);
  static bool states_come_again(const Frame& frame, std::size_t i);
  Value held_output(Frame& frame, std::size_t i, const Value& x);
  void free_saved(Saved& saved);
  bool recomputes_attention(const ShardedOp& op) const;
};

}  // namespace sim::lowering
