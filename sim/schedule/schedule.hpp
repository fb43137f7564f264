// The order of forward and backward passes on one pipeline rank.
//
// Sources: GPipe, Huang et al. 2019; 1F1B, Narayanan et al. 2019 (PipeDream-Flush); interleaved
// 1F1B, Narayanan et al. 2021 and Megatron-LM, core/pipeline_parallel/schedules.py; ZB-H1, Qi et
// al. 2023, "Zero Bubble Pipeline Parallelism", and PyTorch, distributed/pipelining/schedules.py
// (ScheduleInterleavedZeroBubble), where the weight gradients lag by the pipeline rank; with chunks
// the same, interleaved. ZB-V: the same file, ScheduleZBVZeroBubble. V-Half, V-Min:
// controllable_memory.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/layout/layout.hpp"

namespace sim {

enum class SlotKind : std::uint8_t { forward, backward, weight_backward };

struct Slot {
  SlotKind kind = SlotKind::forward;
  int chunk = 0;       // model chunk of this rank: 0 .. virtual_stages - 1
  int microbatch = 0;  // 0 .. micro_batches - 1
  bool operator==(const Slot&) const = default;
};

// Where the schedule splits the backward pass, `backward` computes gradients of inputs only and
// each micro-batch has a `weight_backward` slot too.
constexpr bool splits_backward(Schedule schedule) {
  return schedule == Schedule::zb_h1 || schedule == Schedule::interleaved_zb ||
         is_v_shaped(schedule);
}

// DualPipeV begins with as many forward passes as there are chunks.
constexpr int least_micro_batches(Schedule schedule, int stages) {
  return schedule == Schedule::dual_pipe_v ? 2 * stages : 1;
}

// The order of every pipeline rank. REQUIRES: interleaved: micro_batches a multiple of
// pipeline_parallel; V-shaped: virtual_stages == 2, least_micro_batches; otherwise virtual_stages
// == 1.
std::vector<std::vector<Slot>> schedule_of(const Layout& layout);

// Interleaved: forward passes before the first pair of a forward and a backward pass. Where the
// backward pass is split, a rank begins with its pairs as soon as the gradient of its last chunk
// may be there.
int interleaved_warmup(const Layout& layout, int stage);

}  // namespace sim
