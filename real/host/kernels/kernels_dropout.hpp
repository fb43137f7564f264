// Dropout on a host (real/engine/kernels/dropout.hpp).
#pragma once

#include <cstdint>
#include <span>

#include "real/engine/kernels/dropout.hpp"

namespace real {

// output = values times the factor of each, + added (empty: nothing). `first` is the number of the
// first element. The output may be either input.
void drop(DropoutMask mask, std::uint64_t first, std::span<const float> values,
          std::span<const float> added, std::span<float> output);

const kernels::DropoutTable& host_dropout();

}  // namespace real
