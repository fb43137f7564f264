#include <cuda_runtime_api.h>

#include <stdexcept>

#include "tests/gpu/device_array.hpp"

namespace gpu_test {
namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error{cudaGetErrorString(status)};
}

}  // namespace

std::shared_ptr<void> allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes > 0 ? bytes : 1));
  return {memory, [](void* pointer) { cudaFree(pointer); }};
}
void upload(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
}
void download(void* to, const void* from, std::size_t bytes) {
  check(cudaDeviceSynchronize());
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
}
void run_in_descending_order(bool) {}

}  // namespace gpu_test
