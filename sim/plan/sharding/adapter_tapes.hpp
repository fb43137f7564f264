// The tapes of a low-rank adapter (low_rank.hpp): the order of its kernels and exchanges in each
// pass of its linear, and which tensors they make and keep.
#pragma once

#include <optional>

#include "sim/plan/sharding/parts.hpp"

namespace sim {

// AdapterKernels are those of an adapter, and what its tapes need besides.
struct AdapterKernels {
  Kernel down, up, up_gradient, down_gradient;
  // The last two: to the output of the linear, and to the gradient of its input. Absent: the
  // products do it (Execution::operation_fuser).
  std::optional<Kernel> scale, add, add_gradient;
  std::optional<Kernel> drop, drop_gradient;  // Layout::lora_dropout
  Bytes mask{};                               // of the dropout
  Kernel up_weight, down_weight;              // of B and of A
  // Layout::lora_magnitudes: B A as a matrix, the norms of the weight with it, and what gradients
  // of magnitudes and of the frozen product take; the outputs that they need.
  std::optional<Kernel> weight_down, weight_up, weight_norm, magnitude_gradient;
  Bytes mixed{}, matrices{};  // and what the norms take of the largest weight
  Bytes narrow{};             // x A of all tokens
  bool gathers_narrow = false, sums_narrow = false;  // over the tensor ranks
  Bytes gathered{};  // outputs of all tensor ranks on each of them; 0: they are not gathered
  // Gradients of an adapter that experts of several ranks share, summed over them in every
  // micro-batch; 0: they are not.
  Bytes up_sum{}, down_sum{};
  std::int64_t parameters = 0;
};

// `to`: the linear, with the bytes of its tensors.
LowRankAdapter taped(const Region& region, const ShardedOp& to, const AdapterKernels& kernels);

}  // namespace sim
