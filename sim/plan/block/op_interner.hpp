// Puts the work of the operators of a stage into the tables of its program.
#pragma once

#include <vector>

#include "sim/plan/block/expert_places.hpp"
#include "sim/plan/block/experts.hpp"
#include "sim/plan/block/micro_pipeline.hpp"
#include "sim/plan/block/user_buffers.hpp"
#include "sim/plan/tape/tape_player.hpp"

namespace sim::lowering {

// The parts that have operators of their own.
struct OperatorParts {
  explicit OperatorParts(BlockTools& tools)
      : tapes{tools}, experts{tools, tapes}, user_buffers{tools}, sliced{tools} {}

  static ExpertPlaces places(const Frame& frame) { return expert_places(*frame.shape); }

  TapePlayer tapes;
  ExpertPass experts;
  UserBufferLinears user_buffers;
  SlicedLinears sliced;
};

class OpInterner : BlockPart {
 public:
  OpInterner(BlockTools& tools, OperatorParts& parts) : BlockPart{tools}, parts_{parts} {}

  // By distinct block of the model; empty where the stage has no such block.
  std::vector<BlockWork> intern_blocks();

 private:
  void find_branches(const ShardedBlock& block, BlockWork& work);
  void intern_gradient_sum(const ShardedOp& op, std::size_t i, OpWork& work);
  void intern_op(const ShardedOp& op, const OpWork* first, OpWork& work);
  void intern_products(const ShardedOp& op, OpWork& work);
  void intern_collectives(const ShardedOp& op, OpWork& work);

  OperatorParts& parts_;
};

}  // namespace sim::lowering
