// How DeepSpeed's engine treats a layout (deepspeedai/DeepSpeed, runtime/engine.py).
#pragma once

#include "sim/layout/layout.hpp"

namespace sim {

// bf16 with gradients in fp32 takes BF16_Optimizer, which shards its states at stage 0 as at 1 and
// reduces behind the last backward pass (_do_optimizer_sanity_check).
inline bool takes_bf16_optimizer(const Layout& layout) {
  return layout.zero_stage < 2 && layout.activation_dtype == DType::bf16 &&
         layout.gradient_dtype == DType::fp32;
}

// Whether overlap_comm has an effect: ZeRO's optimizers reduce beside compute, and a pipeline
// switches that off (_configure_zero_optimizer).
inline bool can_overlap_gradients(const Layout& layout) {
  return layout.zero_stage > 0 && layout.pipeline_parallel == 1 && !takes_bf16_optimizer(layout);
}

}  // namespace sim
