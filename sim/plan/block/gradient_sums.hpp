// Adds a micro-batch's gradients to those of the step.
#pragma once

#include <vector>

#include "sim/plan/block/op_emitter.hpp"

namespace sim::lowering {

// A micro-batch's gradient as autograd gives it, before it is added to that of the step.
struct ApartGradient {
  std::size_t op = 0;  // of the block
  Place place;
  BufferId own{none};
};

class GradientSums : StagePart {
 public:
  GradientSums(LoweringContext& context, ParameterStore& store, OpEmitter& emit)
      : StagePart{context}, store_{store}, emit_{emit} {}

  BufferId write_gradient(const Frame& frame, const Place& place, BufferId own = BufferId{none});
  void add_gradient(const Frame& frame, std::size_t i, const Place& place, BufferId own);
  void add_held_gradients(const Frame& frame);
  void take_temporary_placeholder(const Place& place);
  bool has_kept_placeholder(const ModelOp& op) const;
  void allocate_kept_placeholders();

 private:
  bool adds_gradients(const Frame& frame, const Bucket& bucket) const;
  bool sums_wide(const Frame& frame) const;
  void hold_wide_sum(const Frame& frame, const Place& place);
  void add_to_first_piece(const Frame& frame, const ApartGradient& apart);
  void add_to_sum(const Frame& frame, const ApartGradient& apart);
  bool is_first_microbatch(const Frame& frame) const;
  bool begins_sum(const Frame& frame) const;

  ParameterStore& store_;
  OpEmitter& emit_;
  std::vector<ApartGradient> held_gradients_;  // of the block under way
  BufferId wide_sum_{none};
};

}  // namespace sim::lowering
