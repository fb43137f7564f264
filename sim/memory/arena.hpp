// Where every buffer of a program lies in one block of memory.
//
// A place is given to another buffer only when all operators that used the old one are known to be
// done: same stream, or ordered by dependencies. So no operator waits for memory, and the block may
// be larger than the peak of memory_use().
#pragma once

#include <cstdint>
#include <vector>

#include "sim/program/program.hpp"

namespace sim {

struct ArenaLayout {
  Bytes size{};
  Bytes host{};  // of buffers in the host's memory, whose offsets begin at `size`
  // Per entry of Program::buffer_use: the offset of that buffer at that operator. A buffer may lie
  // elsewhere each time it is written anew.
  std::vector<std::int64_t> offset_of_use;
  std::vector<std::int64_t> offset_of_persistent;  // per buffer; -1: not persistent
};

inline constexpr std::int64_t arena_alignment = 256;  // bytes; what cudaMalloc gives

ArenaLayout arena_layout(const Program& program);

}  // namespace sim
