// Formats of weights that are not trained (Layout::frozen_format), and what their products do for
// them. Sources: Dettmers et al. 2023, arXiv:2305.14314 (QLoRA); LLM.int8 of bitsandbytes.
#pragma once

#include "sim/plan/sharding/parts.hpp"

namespace sim {

// Brings the kernels of a frozen linear to the format of its weights. `apart`: linears that are one
// here.
void keep_frozen(const Region& region, int apart, ShardedOp& to);

}  // namespace sim
