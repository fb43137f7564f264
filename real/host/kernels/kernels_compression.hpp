// The host's kernels of compressed gradients and parameters (real/engine/kernels/compression.hpp).
#pragma once

#include "real/engine/kernels/compression.hpp"

namespace real {

const kernels::CompressionTable& host_compression();

}  // namespace real
