// Bytes of an optimizer's moments, in whatever format they are kept: the one place that knows.
//
// bitsandbytes at 95f9af30, optim/optimizer.py, Optimizer2State.init_state: a byte for each number
// and an fp32 maximum for each block of 256; tensors of fewer than 4,096 numbers (min_8bit_size)
// in fp32. torchao at 36027d82, optim/adam.py, _new_buffer: the same limit, where the block divides
// the tensor; else in the format of the weights. subclass_8bit.py, subclass_fp8.py: blocks of 256;
// subclass_4bit.py: two numbers in a byte, blocks of 128.
#pragma once

#include <cstdint>

#include "sim/layout/layout.hpp"

namespace sim {

// Tensors with fewer numbers are not kept in blocks.
constexpr std::int64_t least_in_blocks = 4096;

// StateBlocks is the format of each moment, without the scales.
struct StateBlocks {
  int numbers = 0;  // of a block
  double bytes_each = 0;
};
// bitsandbytes_32bit has no scales.
constexpr StateBlocks blocks_of(StateFormat format) {
  switch (format) {
    case StateFormat::bitsandbytes_8bit:
    case StateFormat::torchao_8bit:
    case StateFormat::torchao_fp8:
      return {256, 1};
    case StateFormat::torchao_4bit:
      return {128, 0.5};
    case StateFormat::bitsandbytes_32bit:
      return {1, 4};
    case StateFormat::plain:
      break;
  }
  return {};
}

// All moments of so many parameters, with the scales; `small` of them in tensors that are not kept
// in blocks.
std::int64_t moment_bytes(const Layout& layout, std::int64_t parameters, std::int64_t small = 0);

}  // namespace sim
