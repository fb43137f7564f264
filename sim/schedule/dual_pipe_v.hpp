// DualPipeV: DualPipe (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.2.1) on half of
// the ranks, with two chunks per rank in a V. The order is PyTorch's
// (distributed/pipelining/schedules.py, ScheduleDualPipeV), whose pairs of a forward and a backward
// pass run one after the other unless the training code overlaps them by itself.
#pragma once

#include <vector>

#include "sim/schedule/schedule.hpp"

namespace sim {

// REQUIRES: at least two micro-batches per rank.
std::vector<Slot> dual_pipe_v(int rank, int ranks, int micro_batches);

}  // namespace sim
