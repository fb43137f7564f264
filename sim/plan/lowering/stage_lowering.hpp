// Lowers the work of one pipeline rank to a Program, in the order in which a Megatron-LM or PyTorch
// host issues it. sim/plan/rules/ has the rules and their sources; README.md lists the parts.
#pragma once

#include <vector>

#include "sim/plan/block/block_backward.hpp"
#include "sim/plan/block/block_forward.hpp"
#include "sim/plan/block/merged_passes.hpp"
#include "sim/plan/lowering/host_activations.hpp"
#include "sim/plan/lowering/pipeline_messages.hpp"
#include "sim/plan/lowering/scale_sharing.hpp"
#include "sim/plan/parameters/optimizer_step.hpp"
#include "sim/plan/parameters/parameter_layout.hpp"

namespace sim::lowering {

class StageLowering {
 public:
  // The arguments outlive it.
  StageLowering(const ShardedModel& model, const PipelineOrder& order, int stage);
  Program lower();

 private:
  Allocation allocation() const;
  std::size_t estimated_ops() const;
  void allocate();
  void end_batch();
  // How many slots from `index` on it has lowered: one, or two whose passes are merged.
  std::size_t lower_slots(std::size_t index);
  void lower_slot(std::size_t index);
  void lower_merged(const MergedSlots& slots);
  void end_merged(const MergedSlots& slots, Value x, Value gradient);
  Value begin_merged(std::size_t index);
  Frame gathered(std::uint32_t block, int microbatch, Pass pass);
  // Blocks that are no layers.
  Value forward_whole(std::uint32_t at, int microbatch, const Value& x);
  Value backward_whole(std::uint32_t at, int microbatch, const Value& gradient);
  // `forward` and `backward` may be null.
  static void merged_layer(LayerForward* forward, LayerBackward* backward, Value& x,
                           Value& gradient);
  void lower_forward(const Slot& slot);
  void lower_backward(const Slot& slot);
  void lower_weight_backward(const Slot& slot);
  Frame frame(const StageBlock& block, int microbatch, Pass pass);

  LoweringContext context_;
  ParameterStore store_;
  WeightGathering weights_;
  LocalSteps local_steps_;
  BlockTools tools_;
  OperatorParts parts_;
  BlockForward forward_;
  BlockBackward backward_;
  PipelineMessages messages_;
  ScaleSharing scales_;
  HostActivations host_;
  std::vector<BlockWork> work_;  // by distinct block of the model
  std::vector<Saved> saved_;     // by operator and micro-batch
};

}  // namespace sim::lowering
