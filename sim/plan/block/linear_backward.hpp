// The backward pass of a linear: the gradient of its input first, then that of its weight, so that
// what other ranks wait for leaves early.
#pragma once

#include "sim/plan/block/op_interner.hpp"

namespace sim::lowering {

class LinearBackward : BlockPart {
 public:
  LinearBackward(BlockTools& tools, OperatorParts& parts) : BlockPart{tools}, parts_{parts} {}

  Value backward_linear(Frame& frame, std::size_t i, Value gradient);
  // Split backward pass: of linears of a block, when their input gradients are done.
  void deferred_weight_gradients(Frame& frame, OpRange range);
  Value gather_gradient(Frame& frame, std::size_t i, Value gradient);
  Value add_residual_gradient(Frame& frame, std::size_t i, Value gradient);

 private:
  Value gather_saved_input(Frame& frame, std::size_t i);
  bool overlaps_wgrad() const;
  bool defers_weight_gradients(const Frame& frame) const;
  Value own_output(Frame& frame, std::size_t i, Value gradient);
  Value scatter_output_gradient(Frame& frame, std::size_t i, Value gradient);
  Value input_gradient(Frame& frame, std::size_t i, const Value& gradient);
  Value add_product(Frame& frame, std::size_t i, Value sum, Value part);
  // `last`: no product reads `gradient` after it.
  Value product_gradient(Frame& frame, std::size_t i, const Value& gradient, bool last);
  Value sum_gradient(const Frame& frame, std::size_t i, Value partial);
  void weight_gradient(Frame& frame, std::size_t i, const Value& gradient, const Value& own_tokens,
                       const Value& gathered);

  void end_frozen(Frame& frame, std::size_t i);

  OperatorParts& parts_;
};

}  // namespace sim::lowering
