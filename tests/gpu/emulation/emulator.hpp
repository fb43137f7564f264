// Runs a CUDA kernel on the CPU: its very source, compiled by a C++ compiler.
//
// Each thread of a block is a fiber; blocks run one after another. A fiber runs until it meets a
// barrier or a warp-wide operation, then the next one runs, so a run is deterministic. Order says
// in which order warps and lanes run between two barriers: results that differ show a race. What
// would hang or be undefined on a GPU throws std::logic_error: a barrier or a warp-wide operation
// that only some threads reach, or two different ones at a time.
//
// Shared memory starts as NaN (0xff bytes). Asynchronous copies happen as late as the source
// allows: when they are waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

struct CUstream_st;

namespace emulation {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr explicit(false) Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
      : x{x_}, y{y_}, z{z_} {}
};

inline constexpr int warp_size = 32;

enum class WarpOp : std::uint8_t { shuffle, vote, matrix_load, multiply, sync };
enum class Order : std::uint8_t { ascending, descending };

// The order of all runs from here on, of this thread of the host.
void set_order(Order order);

struct Grid {
  Dim3 blocks, threads;
  std::size_t shared_bytes = 0;
};
void run(const Grid& grid, const std::function<void()>& kernel);

// Where kernels, copies and fills go; whoever links the emulator defines it: at once
// (emulated_memory.cpp), or by a stream of the fakes (emulated_stream.cpp).
void submit(CUstream_st* stream, std::function<void()> work);

// To be called from a kernel:
const Dim3& thread_index();
const Dim3& block_index();
const Dim3& block_size();
const Dim3& grid_size();
std::byte* shared_memory();
int lane();
void block_barrier();

// WarpView is what all lanes of the warp brought to an operation, by lane.
struct WarpView {
  const std::byte* slots = nullptr;
  static constexpr std::size_t slot_bytes = 64;
  template <class T>
  T of(int lane) const {
    static_assert(sizeof(T) <= slot_bytes);
    T value;
    std::memcpy(&value, slots + static_cast<std::size_t>(lane) * slot_bytes, sizeof(T));
    return value;
  }
};
WarpView warp_meet(WarpOp op, const void* operand, std::size_t bytes);
template <class T>
WarpView warp_meet(WarpOp op, const T& operand) {
  return warp_meet(op, &operand, sizeof(T));
}

void start_copy_16(void* to, const void* from, bool valid);
void start_copy_4(void* to, const void* from, bool valid);
void commit_copies();
void wait_for_copies(int pending_groups);

}  // namespace emulation
