// What the kernels use of CUDA's runtime, on the emulator. Memory of the device is that of the
// host.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>

#include "tests/gpu/emulation/emulator.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__

using cudaStream_t = struct CUstream_st*;
using dim3 = emulation::Dim3;
#define threadIdx (emulation::thread_index())
#define blockIdx (emulation::block_index())
#define blockDim (emulation::block_size())
#define gridDim (emulation::grid_size())

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}

inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}

enum cudaError_t : int { cudaSuccess = 0 };
enum cudaMemcpyKind : int { cudaMemcpyDeviceToDevice = 3 };
// Static: the fakes of the whole runtime have functions of these names.
[[maybe_unused]] static const char* cudaGetErrorString(cudaError_t) {
  return "no error";
}
[[maybe_unused]] static cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes,
                                                    cudaStream_t stream) {
  emulation::submit(stream, [=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}
[[maybe_unused]] static cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                                    cudaMemcpyKind, cudaStream_t stream) {
  emulation::submit(stream, [=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

inline void __syncthreads() {
  emulation::block_barrier();
}
inline void __syncwarp() {
  emulation::warp_meet(emulation::WarpOp::sync, 0);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulation::warp_meet(emulation::WarpOp::shuffle, value)
      .template of<T>(emulation::lane() ^ mask);
}
template <class T>
T __shfl_sync(unsigned, T value, int from) {
  return emulation::warp_meet(emulation::WarpOp::shuffle, value).template of<T>(from & 31);
}
inline int __any_sync(unsigned, int predicate) {
  const auto view = emulation::warp_meet(emulation::WarpOp::vote, predicate);
  int any = 0;
  for (int i = 0; i < emulation::warp_size; ++i)
    any |= view.of<int>(i) != 0 ? 1 : 0;
  return any;
}
inline int atomicMin(int* address, int value) {
  const int old = *address;
  if (value < old) *address = value;
  return old;
}
inline int atomicMax(int* address, int value) {
  const int old = *address;
  if (value > old) *address = value;
  return old;
}
