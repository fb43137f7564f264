// Low-rank adapters (Hu et al. 2021): beside a frozen linear x W stands s (x A) B, of which A and B
// are trained. Which kernel of an adapter is which, by its place in a pass
// (sim/plan/sharding/adapter_tapes.cpp).
#pragma once

namespace real {

// Forward.
enum AdapterForward : int { adapter_down, adapter_up, adapter_scale, adapter_add };
// Backward.
enum AdapterBackward : int {
  adapter_scale_gradient,
  adapter_up_gradient,
  adapter_up_weight,
  adapter_down_gradient,
  adapter_down_weight,
  adapter_add_gradient,
};

// The factor s = alpha / r is 1: Megatron-Bridge at 067f987d, peft/lora.py, has dim 32 and alpha 32
// where nothing is said.

}  // namespace real
