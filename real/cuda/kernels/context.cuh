// Positions of a context rank's tokens.
#pragma once

#include "real/cuda/kernels/device.cuh"
#include "real/engine/kernels.hpp"

namespace real::kernels {

// As ContextShare::position(), which is a function of the host.
__device__ __forceinline__ std::int64_t position_of(const ContextShare& share, std::int64_t at,
                                                    std::int64_t held) {
  if (share.ranks == 1) return at;
  const std::int64_t chunk = held / 2;
  return (at < chunk ? share.rank : 2 * share.ranks - 2 - share.rank) * chunk + at;
}

}  // namespace real::kernels
