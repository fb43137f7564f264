// Layouts that are plainer than those of a search, off which its bounds are read.
#pragma once

#include <vector>

#include "sim/base/ids.hpp"
#include "sim/program/op_work.hpp"
#include "sim/search/candidates.hpp"

namespace sim {

// The least ZeRO stage that the layout goes with, whatever stage it has.
int least_zero_stage(const Layout& layout);
// reduce_plainly() makes all replicas reduce their gradients in each step, as they are.
void reduce_plainly(Layout& layout);
// take_shortest_sequences() puts, in place of lengths of a data set, sequences as short as they can
// be: no micro-batch has less attention.
void take_shortest_sequences(Layout& layout);

// One stage and one chunk with the kernels of the pipeline's blocks, and three micro-batches: what
// blocks cost is read off it (costs/block_costs.hpp).
Layout block_layout(const SearchSpecification& specification, const Pipeline& pipeline,
                    Recompute recompute);

// The ranks of a group in which tensor, data and context coordinate are 0.
std::vector<GpuId> lane_group(const Layout& layout, GroupRole role, int stage);

}  // namespace sim
