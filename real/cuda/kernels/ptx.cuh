// The PTX instructions that attention is made of, one function each (PTX ISA 7.0, sm_80 and later);
// on the emulator, their documented effect.
#pragma once

#include <cstdint>

#include "real/cuda/kernels/device.cuh"
#ifndef __CUDACC__
#include "tests/gpu/emulation/emulated_ptx.hpp"
#endif

namespace real::kernels {

#ifdef __CUDACC__

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// c += a b; a 16 x 16 and b 16 x 8 bf16, c fp32.
__device__ __forceinline__ void multiply_16x8x16(float (&c)[4], const std::uint32_t (&a)[4],
                                                 std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8 x 8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// Copy 16 or 4 bytes from global to shared memory in the background; zeros where not valid.
__device__ __forceinline__ void start_copy_16(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void start_copy_4(void* to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(shared_address(to)),
               "l"(__cvta_generic_to_global(from)), "r"(valid ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int pending_groups>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(pending_groups) : "memory");
}

// Two bf16 in a register, the first in the lower half.
__device__ __forceinline__ std::uint32_t pack(float first, float second) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
}
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

#else

using emulation::commit_copies;
using emulation::multiply_16x8x16;
using emulation::start_copy_16;
using emulation::start_copy_4;

inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  emulation::load_matrices(to, row, false);
}
inline void load_matrices_transposed(std::uint32_t (&to)[4], const void* row) {
  emulation::load_matrices(to, row, true);
}
template <int pending_groups>
void wait_for_copies() {
  emulation::wait_for_copies(pending_groups);
}
inline std::uint32_t pack(float first, float second) {
  return __float2bfloat16_rn(first).bits |
         static_cast<std::uint32_t>(__float2bfloat16_rn(second).bits) << 16;
}
inline float power_of_two(float x) {
  return std::exp2(x);
}

#endif

}  // namespace real::kernels
