// The context that all parts of the lowering of a stage share.
#pragma once

#include <vector>

#include "sim/plan/lowering/stage_blocks.hpp"
#include "sim/plan/lowering/tensors.hpp"

namespace sim::lowering {

// How the data-parallel ranks of a stage share what they hold.
struct DataSharing {
  int zero = 0;           // 0 when there is nobody to share with
  bool converts = false;  // converts_gradients()
  bool holds = false;     // holds_units(), of gradients;
  bool keeps = false;     // of gathered weights, too
  bool each_run = false;  // held gradients are reduced behind every run of the pipeline
  DType gradient_dtype = DType::bf16;  // summed_gradient_dtype()
  int shards = 1;                      // ranks that share one copy
  int expert_copies = 1;               // ranks with the same experts
  int expert_shards = 1;               // of those, ranks that share one copy
  bool host_gradients = false;         // they leave the device when they are reduced
  bool reduces_each_microbatch() const { return zero >= 2 && !holds; }
};

struct LoweringContext {
  LoweringContext(const ShardedModel& sharded, const std::vector<Slot>& order, int of_stage);

  const ShardedModel& model;
  const Layout& layout;
  const Execution& runs;
  const std::vector<Slot>& slots;
  Placement placement;
  int stage = 0;
  DataSharing sharing;
  std::vector<StageBlock> blocks;
  std::vector<Chunk> chunks;
  std::uint32_t saved = 0;  // StageBlocks::saved
  ProgramBuilder builder;
  TensorLifetimes tensors;
  std::size_t slot = 0;  // the one under way

  const Chunk& chunk_of(const Slot& of) const { return chunks[static_cast<std::size_t>(of.chunk)]; }
  // Whether the slot under way has the last gradients of its chunk. Under a split backward pass
  // norms are ready in the backward slot and matrices later.
  bool is_last_microbatch() const;
  // Whether the slot has the last of the gradients that are reduced together: a step, or a run of
  // the pipeline.
  bool completes_gradients() const;
  // Slots of one run of the pipeline (all runs have as many), and the place of a slot in its run.
  std::size_t run_slots() const {
    return slots.size() / static_cast<std::size_t>(layout.pipeline_runs);
  }
  std::size_t slot_of_run(std::size_t index) const { return index % run_slots(); }
  // Whether a slot begins what the training loop calls again: a run of the pipeline, or without one
  // a micro-batch.
  bool begins_batch(std::size_t index) const;
  OpLabel label(const char* name);
  OpLabel boundary_label(const char* name, const Chunk& chunk, int microbatch);
  // A kernel that moves so many bytes and nothing else.
  std::uint32_t memory_pass(std::int64_t bytes, OpKind kind, DType dtype, int launches = 1);
};

// A part of the lowering, with state of its own and the context in common.
class StagePart {
 protected:
  explicit StagePart(LoweringContext& context)
      : context_{context},
        model_{context.model},
        layout_{context.layout},
        runs_{context.runs},
        sharing_{context.sharing},
        builder_{context.builder},
        tensors_{context.tensors} {}

  LoweringContext& context_;
  const ShardedModel& model_;
  const Layout& layout_;
  const Execution& runs_;
  const DataSharing& sharing_;
  ProgramBuilder& builder_;
  TensorLifetimes& tensors_;
};

}  // namespace sim::lowering
