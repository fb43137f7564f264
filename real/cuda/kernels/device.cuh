// The basis of all kernels: formats of memory, vectors of 16 bytes, sums over a warp and a block.
// The sources compile with nvcc, and with a C++ compiler on the emulator of tests/gpu/emulation.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace real::kernels {

using Bf16 = __nv_bfloat16;
inline constexpr int warp_size = 32;
inline constexpr unsigned all_lanes = 0xffffffffU;

__device__ __forceinline__ float to_float(float value) {
  return value;
}
__device__ __forceinline__ float to_float(Bf16 value) {
  return __bfloat162float(value);
}
template <class T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (sizeof(T) == 2) {
    return __float2bfloat16_rn(value);
  } else {
    return value;
  }
}

// `count` neighbouring elements that are loaded and stored at once.
template <class T, int count>
struct alignas(sizeof(T) * count) Vector {
  T at[count];
};

template <class T, int count>
__device__ __forceinline__ void load(const T* from, float (&to)[count]) {
  const auto vector = *reinterpret_cast<const Vector<T, count>*>(from);
#pragma unroll
  for (int i = 0; i < count; ++i)
    to[i] = to_float(vector.at[i]);
}
template <class T, int count>
__device__ __forceinline__ void store(const float (&from)[count], T* to) {
  Vector<T, count> vector;
#pragma unroll
  for (int i = 0; i < count; ++i)
    vector.at[i] = from_float<T>(from[i]);
  *reinterpret_cast<Vector<T, count>*>(to) = vector;
}

// Sixteen bytes as they lie in memory: four registers, where elements of two bytes that wait to be
// used would take one each.
struct alignas(16) Words {
  std::uint32_t at[4];
};
template <class T, int count>
__device__ __forceinline__ void unpack(const Words& words, float (&to)[count]) {
  static_assert(count * sizeof(T) == sizeof(Words));
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 4) {
      to[i] = __uint_as_float(words.at[i]);
    } else {
      const std::uint32_t pair = words.at[i / 2];
      to[i] = __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000U);
    }
  }
}

// The block's dynamic shared memory.
template <class T>
__device__ __forceinline__ T* shared_memory() {
#ifdef __CUDACC__
  extern __shared__ __align__(1024) unsigned char stepcast_shared[];
  return reinterpret_cast<T*>(stepcast_shared);
#else
  return reinterpret_cast<T*>(emulation::shared_memory());
#endif
}

__device__ __forceinline__ int lane_id() {
  return static_cast<int>(threadIdx.x) % warp_size;
}
__device__ __forceinline__ int warp_id() {
  return static_cast<int>(threadIdx.x) / warp_size;
}
__device__ __forceinline__ std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::int64_t global_threads() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Maximum {
  // NaN stays: it must reach the loss.
  __device__ float operator()(float a, float b) const { return a != a || a > b ? a : b; }
};

// Every lane gets the result; butterfly: the same order of terms for all.
template <class Combine, class T>
__device__ __forceinline__ T combine_warp(T value, Combine combine) {
#pragma unroll
  for (int mask = warp_size / 2; mask > 0; mask /= 2)
    value = combine(value, __shfl_xor_sync(all_lanes, value, mask));
  return value;
}

// Every thread gets the result. `scratch`: an element per warp; free to be used again after it.
template <class Combine, class T>
__device__ __forceinline__ T combine_block(T value, Combine combine, T* scratch) {
  value = combine_warp(value, combine);
  if (lane_id() == 0) scratch[warp_id()] = value;
  __syncthreads();
  T result = scratch[0];
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  for (int i = 1; i < warps; ++i)
    result = combine(result, scratch[i]);
  __syncthreads();
  return result;
}

}  // namespace real::kernels
