// Which blocks of the model a pipeline rank has, chunk by chunk.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/plan/sharding/sharding.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/schedule.hpp"

namespace sim::lowering {

// A block of this stage.
struct StageBlock {
  std::uint32_t shape = 0;  // index into ShardedModel::blocks
  std::int16_t layer = -1;
  int chunk = 0;                             // of this rank
  std::uint32_t first_op = 0;                // of all operators of the stage
  std::uint32_t first_saved = 0;             // in the saved states of a micro-batch of its chunk
  bool left_out = false;                     // of recomputation
  BlockPlace place = BlockPlace::layer;
  bool is_first = false;   // of the model's blocks that are trained: hands no gradient on
  bool is_output = false;  // of the model
  bool frozen = false;     // has no backward pass (Layout::freeze_vision_model)
};
struct Chunk {
  std::uint32_t first_block = 0, blocks = 0;
  std::uint32_t saved = 0;       // operators: saved states of a micro-batch
  std::uint32_t saved_base = 0;  // of micro-batch 0 in saved_
  int last_backward = -1;        // index of the slot that completes its gradients
  int first_gradients = 0;       // the micro-batch that has gradients first
  std::int16_t global = 0;
};

struct StageBlocks {
  std::vector<StageBlock> blocks;
  std::vector<Chunk> chunks;
  std::uint32_t saved = 0;  // operators: saved states of all micro-batches
};
StageBlocks stage_blocks(const ShardedModel& model, const Placement& placement,
                         const std::vector<Slot>& slots, int stage);

}  // namespace sim::lowering
