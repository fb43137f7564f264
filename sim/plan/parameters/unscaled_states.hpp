// States of an optimizer in formats that its kernel does not read (Transformer Engine at d0067d0d,
// pytorch/optimizers/fused_adam.py): FusedAdam.step brings those of all parameters of a group to
// fp32, updates them, and brings them back. Its kernel reads moments in fp32, or both in bf16
// (fuse_unscale), and masters in fp32 or as remainders.
#pragma once

#include <cstdint>

#include "sim/layout/layout.hpp"

namespace sim::lowering {

struct UnscaledStates {
  int states = 0;               // of a parameter, as fp32 tensors beside the kept ones
  std::int64_t kept_bytes = 0;  // of these states as they are kept
  std::int64_t bytes = 0;       // read and written around the kernel, per parameter
  int launches = 0;             // per tensor
};
UnscaledStates unscaled_states(const Layout& layout);

}  // namespace sim::lowering
