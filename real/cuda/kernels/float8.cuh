// Floats to 8 bits, with saturation; on the emulator by real/engine/kernels/float8.hpp.
#pragma once

#include <cstdint>

#include "real/cuda/kernels/device.cuh"
#include "real/engine/kernels/float8.hpp"
#ifdef __CUDACC__
#include <cuda_fp8.h>
#endif

namespace real::kernels {

// Four codes, the first in the lowest byte.
template <Float8 format>
__device__ __forceinline__ std::uint32_t to_codes(const float (&values)[4]) {
#ifdef __CUDACC__
  constexpr auto kind = format == Float8::e4m3 ? __NV_E4M3 : __NV_E5M2;
  const std::uint32_t low =
      __nv_cvt_float2_to_fp8x2(make_float2(values[0], values[1]), __NV_SATFINITE, kind);
  const std::uint32_t high =
      __nv_cvt_float2_to_fp8x2(make_float2(values[2], values[3]), __NV_SATFINITE, kind);
  return low | high << 16;
#else
  std::uint32_t codes = 0;
  for (int i = 0; i < 4; ++i)
    codes |= static_cast<std::uint32_t>(to_float8(values[i], format)) << 8 * i;
  return codes;
#endif
}

// As scale_for() of float8.hpp, which is the host's.
__device__ __forceinline__ float scale_of(float maximum, float most, float otherwise) {
  constexpr float huge = 3.402823466e38f;
  if (!(maximum > 0.0f) || maximum > huge) return otherwise;
  const float scale = most / maximum;
  return scale < huge ? scale : huge;
}

}  // namespace real::kernels
