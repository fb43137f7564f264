// The backward pass of a block.
#pragma once

#include "sim/plan/block/linear_backward.hpp"
#include "sim/plan/block/rematerialisation.hpp"

namespace sim::lowering {

class BlockBackward : BlockPart {
 public:
  BlockBackward(BlockTools& tools, OperatorParts& parts, BlockForward& forward)
      : BlockPart{tools},
        tools_{tools},
        parts_{parts},
        linears_{tools, parts},
        forward_{forward},
        again_{tools, forward} {}

  Value backward_block(Frame& frame, Value gradient);
  Value backward_ops(Frame& frame, Value gradient, OpRange range);
  Value backward_op(Frame& frame, std::size_t i, Value gradient);
  void deferred_weight_gradients(Frame& frame) {
    deferred_weight_gradients(frame, {0, frame.shape->ops.size()});
  }
  void deferred_weight_gradients(Frame& frame, OpRange range) {
    linears_.deferred_weight_gradients(frame, range);
  }
  void take_loss_metrics(const Chunk& chunk);

 private:
  Value backward_beside_shared(Frame& frame, Value gradient);
  Value backward_pieces(Frame& frame, const Replay& replay, const Value& gradient);
  Value backward_chunks(Frame& frame, const Replay& replay);
  void pass_branch(const Frame& frame, std::size_t i, const Value& gradient);
  Value backward_kernel(Frame& frame, std::size_t i, Value gradient);
  Value end_at_frozen_table(Frame& frame, std::size_t i, const Value& gradient);
  Value backward_loss(Frame& frame, std::size_t i);

  BlockTools& tools_;
  OperatorParts& parts_;
  LinearBackward linears_;
  BlockForward& forward_;
  Rematerialisation again_;
};

}  // namespace sim::lowering
