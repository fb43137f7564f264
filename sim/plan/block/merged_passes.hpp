// A forward pass of a micro-batch and a backward pass of another one, layer by layer, such that the
// exchanges of tokens of each run beside the kernels of the other (Megatron-LM,
// --overlap-moe-expert-parallel-comm).
#pragma once

#include <optional>

#include "sim/plan/block/block_backward.hpp"
#include "sim/plan/block/block_forward.hpp"

namespace sim::lowering {

// Indices of slots of the stage; at least one is there.
struct MergedSlots {
  std::optional<std::size_t> forward, backward;
  std::size_t count() const { return (forward ? 1U : 0U) + (backward ? 1U : 0U); }
};
// The slots from `index` on: a forward and a backward pass that follow each other, unless the
// latter needs the former, or one alone.
MergedSlots merged_slots(const LoweringContext& context, std::size_t index);

// The passes of a layer in the parts that core/models/gpt/fine_grained_callables.py makes of it.
// Kernels that stand behind an exchange are issued when the next part of its pass begins.
class LayerForward {
 public:
  LayerForward(BlockTools& tools, OperatorParts& parts, BlockForward& passes)
      : branches_{tools.branches}, parts_{parts}, passes_{passes} {}

  void begin(const Frame& frame, const Value& x);
  void attention();
  void dispatch();
  void experts();
  void combine();
  Value end();

 private:
  BranchTensors& branches_;
  OperatorParts& parts_;
  BlockForward& passes_;
  Frame frame_;
  ExpertPlaces at_;
  Value x_, shared_;
};

class LayerBackward {
 public:
  LayerBackward(BlockTools& tools, OperatorParts& parts, BlockBackward& passes, bool delays)
      : branches_{tools.branches}, parts_{parts}, passes_{passes}, delays_{delays} {}

  void begin(const Frame& frame, const Value& gradient);
  void combine();
  void experts();
  void expert_weights();
  void dispatch();
  Value attention();
  void attention_weights();
  const Frame& frame() const { return frame_; }

 private:
  BranchTensors& branches_;
  OperatorParts& parts_;
  BlockBackward& passes_;
  bool delays_;  // weight gradients
  Frame frame_;
  ExpertPlaces at_;
  Value x_, shared_;
};

}  // namespace sim::lowering
