// Lower bounds on the time and memory of one block of the model, for one rank and one micro-batch.
// Read off a program that the planner lowers for a model of a few layers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/engine/cost_table.hpp"
#include "sim/plan/plan.hpp"
#include "sim/search/costs/overlaps.hpp"

namespace sim {

// Times in ps. A pass of a block lasts from the end of the kernel before it to the end of its last.
struct BlockCosts {
  std::int64_t forward = 0;
  std::int64_t recompute = 0;      // the forward pass again
  std::int64_t backward = 0;       // without the weight gradients where the schedule splits them
  std::int64_t weight = 0;         // those
  std::int64_t backward_head = 0;  // of `backward`: before its first kernel begins
  std::int64_t backward_tail = 0;  // of `backward`: after its last kernel of the input gradient
  std::int64_t kernels = 0;        // of all passes, without what they wait for
  std::int64_t persistent = 0;     // those of them that leave no room to communication
  std::int64_t launches = 0;       // kernels and collectives that the host issues in all passes
  std::int64_t parts = 0;          // beside them, what it issues as parts of a call (CallParts)
  // Bytes of activations: what a pass leaves behind, and the most it has beside what was there.
  std::int64_t forward_left = 0, forward_most = 0;
  std::int64_t recompute_left = 0, recompute_most = 0;
  std::int64_t backward_left = 0, backward_most = 0;
  // The most of these passes together with the weights and gradients that ZeRO-3 has whole.
  std::int64_t recompute_most_gathered = 0, backward_most_gathered = 0;
  // Tensors that go to the host behind the forward pass and come back before the backward: bytes,
  // and the time of their copies one way.
  std::int64_t sent = 0, sending = 0;
  std::int64_t weight_freed = 0;       // by the weight gradients, where the schedule splits them
  std::int64_t parameters = 0;         // elements that the rank holds, but those of
  std::int64_t expert_parameters = 0;  // experts
  std::int64_t frozen_bytes = 0;       // of parameters that are not trained
  std::int64_t shared = 0;             // of a table that the embedding holds too
};

struct ModelCosts {
  BlockCosts input, output;             // empty where the model has none
  std::vector<BlockCosts> layers;       // distinct ones
  std::vector<std::uint32_t> of_layer;  // index into `layers`
  // Bytes of the tensor between two chunks, the least and the most over all places to cut.
  std::int64_t boundary = 0, largest_boundary = 0;
  const BlockCosts& layer(int index) const {
    return layers[of_layer[static_cast<std::size_t>(index)]];
  }
};

struct BlockPricing {
  const KernelPricing& kernels;
  double slowness = 1;  // kernels take so many times as long
  DeviceShares shares;
  std::function<LeastCollective(const Collective&)> collective;  // within layers
};

// weights_of() is the format in which parameters are kept and gathered.
DType weights_of(const Layout& layout);

// `layout` gives the split, the micro-batch, the kernels, the schedule (split backward pass or not)
// and what is recomputed; it has one stage, one chunk, and three micro-batches.
ModelCosts model_costs(const Model& model, const Layout& layout, const BlockPricing& pricing);

}  // namespace sim
