// Mixtures of experts of Hugging Face's classes, on GPUs that have all of them.
#pragma once

#include "sim/interop/handover.hpp"

namespace sim {

// The framework of `result`, whose shape is set, where that has experts.
void set_transformers_experts(Imported& result);

// keep_adapters_of_model() keeps adapters of linears that the model has beside routed experts, or
// in these.
void keep_adapters_of_model(Imported& result);

}  // namespace sim
