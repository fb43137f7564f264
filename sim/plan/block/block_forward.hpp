// The forward pass of a block, also when it is run again for the backward pass.
#pragma once

#include "sim/plan/block/loss_forward.hpp"
#include "sim/plan/block/op_interner.hpp"

namespace sim::lowering {

class BlockForward : BlockPart {
 public:
  BlockForward(BlockTools& tools, OperatorParts& parts)
      : BlockPart{tools}, parts_{parts}, loss_{tools} {}

  Value forward_block(Frame& frame, Value x);
  Value forward_ops(Frame& frame, Value x, OpRange range);
  // Called before a kernel that reads a number from the host's memory.
  void wait_for_copies(const ShardedOp& op);

 private:
  Value forward_beside_shared(Frame& frame, Value x);
  Value forward_or_replay(Frame& frame, std::size_t i, const Value& x);
  Value enter_replay(const Frame& frame, std::size_t i, const Value& x);
  Value forward_pieces(Frame& frame, const Replay& replay, const Value& x);
  Value forward_kept_pieces(const Frame& frame, const Replay& replay, const Value& x);
  void keep_outputs(const Frame& frame);
  void free_kept_outputs(const Frame& frame, std::size_t i);
  Value enter_branch(const Frame& frame, std::size_t i, Value x);
  void lend_input(const Frame& frame, std::size_t i, const Value& x);
  bool begins_branch(const Frame& frame, const OpWork& work) const;
  Value end_early(Frame& frame, std::size_t i, const Value& x);
  void wait_for_lengths();
  void wait_before_mlp(const OpWork& work);
  Value forward_op(Frame& frame, std::size_t i, Value x);
  Value bring_beside(Frame& frame, std::size_t i, std::uint32_t collective, Bytes bytes);
  Value forward_linear(Frame& frame, std::size_t i, Value x);
  Value gather_input(Frame& frame, std::size_t i, const Value& x);
  Value gather_output(Frame& frame, std::size_t i, Value own);
  Value kept_output(Frame& frame, std::size_t i, Value x);
  Value sum_over_tensor(const Frame& frame, std::size_t i, Value partial);

  OperatorParts& parts_;
  LossForward loss_;
};

}  // namespace sim::lowering
