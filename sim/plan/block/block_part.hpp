// Tools and state that the passes of a block have in common.
#pragma once

#include "sim/plan/block/gradient_sums.hpp"
#include "sim/plan/block/op_emitter.hpp"
#include "sim/plan/block/saved_tensors.hpp"
#include "sim/plan/parameters/gradient_reduction.hpp"

namespace sim::lowering {

struct BlockTools {
  BlockTools(LoweringContext& of, ParameterStore& parameters, WeightGathering& weights)
      : context{of},
        store{parameters},
        emit{of, parameters},
        kept{of},
        sums{of, parameters, emit},
        reduction{of, parameters, weights} {}

  LoweringContext& context;
  ParameterStore& store;
  OpEmitter emit;
  SavedTensors kept;
  GradientSums sums;
  GradientReduction reduction;
  BranchTensors branches;
};

class BlockPart : protected StagePart {
 protected:
  explicit BlockPart(BlockTools& tools)
      : StagePart{tools.context},
        store_{tools.store},
        emit_{tools.emit},
        kept_{tools.kept},
        sums_{tools.sums},
        reduction_{tools.reduction},
        branches_{tools.branches} {}

  // The frame of a piece of the micro-batch (pieces.cpp).
  Frame piece_of(const Frame& frame, const Replay& replay, int piece) const;
  // Tensors of a piece between the passes (PieceOrder::behind), behind what the block keeps.
  static Saved* kept_of_piece(const Frame& frame, int piece) {
    return frame.saved + frame.shape->ops.size() * static_cast<std::size_t>(1 + piece);
  }
  static OpRange range_of(const Replay& replay) {
    return {replay.ops.front(), replay.ops.back() + std::size_t{1}};
  }
  // One of the pieces of a tensor, which has its holder in common with it.
  static Value slice(const Value& whole, int pieces) {
    return {whole.buffer, Bytes{whole.bytes.count() / pieces}, whole.ready};
  }

  ParameterStore& store_;
  OpEmitter& emit_;
  SavedTensors& kept_;
  GradientSums& sums_;
  GradientReduction& reduction_;
  BranchTensors& branches_;
};

}  // namespace sim::lowering
