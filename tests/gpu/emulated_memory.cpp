#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/gpu/device_array.hpp"
#include "tests/gpu/emulation/emulator.hpp"

// No streams: every kernel runs at once.
void emulation::submit(CUstream_st*, std::function<void()> work) {
  work();
}

namespace gpu_test {

std::shared_ptr<void> allocate(std::size_t bytes) {
  void* memory = std::aligned_alloc(256, (bytes + 256) / 256 * 256);
  if (memory == nullptr) throw std::bad_alloc{};
  return {memory, std::free};
}
void upload(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void download(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}
void run_in_descending_order(bool descending) {
  emulation::set_order(descending ? emulation::Order::descending : emulation::Order::ascending);
}

}  // namespace gpu_test
