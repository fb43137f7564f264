// Starting a kernel, and choosing its instance by format and alignment.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "real/cuda/kernels/device.cuh"
#include "real/engine/kernels.hpp"

namespace real::kernels {

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error{std::string{what} + ": " + cudaGetErrorString(status)};
}

[[noreturn]] inline void refuse(const char* kernel, const std::string& problem) {
  throw std::invalid_argument{std::string{kernel} + ": " + problem};
}

struct Shape {
  const char* name = "";  // of the kernel, in errors
  dim3 blocks{1};
  unsigned threads = warp_size;
  std::size_t shared_bytes = 0;
  StreamHandle stream = nullptr;
};

#ifdef __CUDACC__
// More dynamic shared memory than this must be asked for (CUDA C++ Programming Guide, "Shared
// Memory" of compute capability 9.0).
inline constexpr std::size_t shared_without_asking = 48 * 1024;

template <class... Parameters, class... Arguments>
void launch(const Shape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  if (shape.shared_bytes > shared_without_asking) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shape.shared_bytes)),
          shape.name);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.blocks;
  config.blockDim = dim3{shape.threads};
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = shape.stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), shape.name);
}
#else
template <class... Parameters, class... Arguments>
void launch(const Shape& shape, void (*kernel)(Parameters...), Arguments... arguments) {
  const std::tuple<Parameters...> values{static_cast<Parameters>(arguments)...};
  const emulation::Grid grid{shape.blocks, {shape.threads}, shape.shared_bytes};
  emulation::submit(shape.stream,
                    [=] { emulation::run(grid, [&] { std::apply(kernel, values); }); });
}
#endif

template <class T>
struct Type {
  using type = T;
};

// visit(Type<T>{}) with the C++ type of a format.
template <class Visit>
void with_type(const char* kernel, sim::DType dtype, Visit visit) {
  if (dtype == sim::DType::bf16) return visit(Type<Bf16>{});
  if (dtype == sim::DType::fp32) return visit(Type<float>{});
  refuse(kernel, "works on bf16 and fp32 only");
}

template <int value_>
struct Constant {
  static constexpr int value = value_;
};

inline bool aligned(std::initializer_list<const void*> pointers) {
  for (const void* pointer : pointers)
    if (reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0) return false;
  return true;
}

// visit(Constant<n>{}): vectors of 16 bytes of T where everything allows it, else of one element.
template <class T, class Visit>
void with_vector(bool aligned, std::int64_t width, Visit visit) {
  constexpr int full = 16 / sizeof(T);
  if (aligned && width % full == 0) return visit(Constant<full>{});
  visit(Constant<1>{});
}

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Blocks of a grid-stride loop over `items`, `per_block` each: at most as many as fill the largest
// GPU a few times (132 SMs of an H100, 8 blocks of 256 threads each), so that the loop pays for
// the start of a block.
inline constexpr std::int64_t most_blocks = 132 * 8 * 2;
inline unsigned stride_blocks(std::int64_t items, std::int64_t per_block) {
  const std::int64_t blocks = divide_up(items, per_block);
  return static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks);
}

template <class T>
const T* as(const void* memory) {
  return static_cast<const T*>(memory);
}
template <class T>
T* as(void* memory) {
  return static_cast<T*>(memory);
}

inline void require_workspace(const char* kernel, Workspace workspace, std::int64_t bytes) {
  if (workspace.bytes < bytes)
    refuse(kernel, "its workspace has " + std::to_string(workspace.bytes) + " of " +
                       std::to_string(bytes) + " bytes");
}

}  // namespace real::kernels
