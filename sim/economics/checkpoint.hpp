// Checkpoints of a plan: what they hold, and how long they take to write and to load.
#pragma once

#include "sim/economics/budget.hpp"
#include "sim/plan/plan.hpp"

namespace sim {

// Weights and optimizer states, each once: replicas hold the same, and share the writing of it
// evenly (Megatron-Core's fully parallel save, torch.distributed.checkpoint).
struct CheckpointSize {
  Bytes total{};
  Bytes per_gpu{};   // the most that one GPU writes
  Bytes per_node{};  // the most that the GPUs of one node write
  Bytes held{};      // what all ranks hold: what they load
  Bytes held_per_node{};
};
CheckpointSize checkpoint_size(const Plan& plan, int gpus_per_node);

struct CheckpointTimes {
  Seconds write{};  // to storage
  Seconds stall{};  // that training halts: overhead, and the write or the copy to the host
  Seconds lag{};    // from there until it can be restored from
  Seconds load{};
};
// checkpoint_times(): with `rules.bytes` that many are written and loaded in proportion.
CheckpointTimes checkpoint_times(const CheckpointSize& size, const CheckpointRules& rules);

}  // namespace sim
