// Tensors that operators keep for their backward pass, and when they are freed.
#pragma once

#include "sim/plan/block/frame.hpp"
#include "sim/plan/lowering/lowering_context.hpp"

namespace sim::lowering {

class SavedTensors : StagePart {
 public:
  explicit SavedTensors(LoweringContext& context) : StagePart{context} {}

  // Keeps or frees `x`, which the operator added last reads.
  void keep_or_free(Frame& frame, std::size_t i, const Value& x);
  void keep_beside(Frame& frame, std::size_t i, Bytes bytes);
  void keep_output(Frame& frame, std::size_t i, const Value& out);
  static bool holds_output(const Frame& frame, std::size_t i);
  static bool is_held(const Frame& frame, std::size_t i);
  // For a forward pass: whether a replay makes the input again.
  static bool input_comes_again(const Frame& frame, std::size_t i);
  Value held_output(Frame& frame, std::size_t i, const Value& x);
  void free_saved(Saved& saved);
  void free_loss(Saved& saved);  // of a loss, if it has kept anything
};

}  // namespace sim::lowering
