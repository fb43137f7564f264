// Adafactor as transformers has it (Shazeer and Stern 2018; huggingface/transformers at 005edacb,
// optimization.py, Adafactor.step; Trainer: no first moment, no factor of the weights' size): of a
// matrix it keeps the sums of rows and of columns of the second moment, in fp32, else a number for
// each parameter. It runs operation by operation.
#pragma once

#include <cstdint>

#include "sim/plan/sharding/sharding.hpp"

namespace sim::lowering {

// Kept of the trained parameters of an operator.
std::int64_t factored_numbers(const ShardedOp& op);

// Bytes per parameter, with gradients of so many bytes. REQUIRES: layout.optimizer is adafactor.
std::int64_t adafactor_bytes(const Layout& layout, std::int64_t gradient);
int adafactor_launches(const Layout& layout);  // of a tensor
// Scratch memory of the update of a tensor, in bytes per parameter.
std::int64_t adafactor_scratch(const Layout& layout, std::int64_t gradient);

}  // namespace sim::lowering
