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
#include "sim/schedule/schedule_rules.hpp"

namespace sim {

enum class SlotKind : std::uint8_t { forward, backward, weight_backward };

// Where the schedule splits the backward pass, `backward` computes gradients of inputs only and
// each micro-batch has a `weight_backward` slot too.
struct Slot {
  SlotKind kind = SlotKind::forward;
  int chunk = 0;       // model chunk of this rank: 0 .. virtual_stages - 1
  int microbatch = 0;  // 0 .. micro_batches - 1
  bool operator==(const Slot&) const = default;
};

constexpr bool is_forward(const Slot& slot) {
  return slot.kind == SlotKind::forward;
}

// The order of every pipeline rank: that of a run, Layout::pipeline_runs times. REQUIRES: what
// schedule_rules.hpp asks for.
std::vector<std::vector<Slot>> schedule_of(const Layout& layout);

// Interleaved: forward passes of a run before the first pair of a forward and a backward pass.
// Where the backward pass is split, a rank begins with its pairs as soon as the gradient of its
// last chunk may be there.
int interleaved_warmup(const Layout& layout, int stage);

}  // namespace sim
