// Kernels between the grouped products of Megatron-LM's experts that no fused kernel has.
#pragma once

#include "sim/framework/framework.hpp"

namespace sim {

// Adds them to the operators of `model`, which runs with `framework` otherwise.
void add_expert_kernels(const Framework& framework, Model& model);

}  // namespace sim
