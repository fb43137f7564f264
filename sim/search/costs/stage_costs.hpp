// Blocks put together to chunks and stages, and the schedule on them: how early a step can be over
// and how little memory it can take.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/search/costs/block_costs.hpp"

namespace sim {

// A model chunk on one micro-batch, in ps and bytes.
struct ChunkCosts {
  std::int64_t forward = 0;
  std::int64_t backward = 0;        // with what is run again before it
  std::int64_t after_gradient = 0;  // the part of `backward` that needs the next chunk's gradient
  std::int64_t tail = 0;            // the part of it after its own gradient is done
  std::int64_t weight = 0;          // where the backward pass is split
  std::int64_t kernels = 0, persistent = 0;  // of all passes (BlockCosts)
  std::int64_t launches = 0, parts = 0;      // of all passes (BlockCosts)
  std::int64_t sending = 0;                  // of activations to the host, one way
  std::int64_t held = 0;                     // bytes kept from forward to backward pass
  std::int64_t held_for_weights = 0;         // of these, from there to the weight gradients
  std::int64_t most_in_backward = 0;         // beside what is held
  std::int64_t most_gathered = 0;            // the same with what ZeRO-3 has whole
  std::int64_t parameters = 0, expert_parameters = 0, frozen_bytes = 0;  // (BlockCosts)
};

// In execution order. `checkpointed` has the costs under full recomputation; unused without.
std::vector<ChunkCosts> chunk_costs(const Layout& layout, const ModelCosts& plain,
                                    const ModelCosts& checkpointed, bool tied);

// ActivationBytes of a stage, at the backward pass before which most is kept; `gathered`: with the
// weights and gradients that ZeRO-3 has whole for it.
struct ActivationBytes {
  std::int64_t plain = 0, gathered = 0;
};
std::vector<ActivationBytes> activation_bytes(const Layout& layout,
                                              std::span<const ChunkCosts> chunks);

// least_step() is a lower bound on a step, from the first forward pass on: what any schedule of
// these passes takes that keeps a stage's order, without messages.
std::int64_t least_step(const Layout& layout, std::span<const ChunkCosts> chunks);

struct StageTimes {
  std::int64_t end = 0;         // of its last pass
  std::int64_t last_start = 0;  // of the pass that completes its first gradients
};

// A message between two stages, ps.
struct MessageTimes {
  std::int64_t transfer = 0;
  std::int64_t gather = 0;  // of its parts, at the receiver, before the tensor is there
};

// The same without an order of passes, of which several may run at once: no stage is done before
// the first micro-batch has come to it and all its passes have run.
std::vector<StageTimes> busy_times(const Layout& layout, std::span<const ChunkCosts> chunks);

// The schedule, pass by pass. `messages[s]`: from stage s to s + 1; the last one to stage 0.
std::vector<StageTimes> schedule_times(const Layout& layout, std::span<const ChunkCosts> chunks,
                                       std::span<const MessageTimes> messages);

}  // namespace sim
