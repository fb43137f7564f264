// Which implementation of attention runs: it decides the rates, and what is kept for backward.
#pragma once

#include <array>
#include <cstdint>

#include "sim/base/words.hpp"

namespace sim {

// flash: the fastest kernel that the device's library has; flash_2: FlashAttention-2, what
// PyTorch's scaled_dot_product_attention and flash-attn run on Hopper unless told otherwise;
// flash_1: the first FlashAttention (2022) and the Triton kernel of that time.
enum class AttentionKernel : std::uint8_t { flash, flash_1, flash_2, unfused };
constexpr auto words_of(AttentionKernel) {
  return std::array{
      Word{AttentionKernel::flash, "flash"}, Word{AttentionKernel::flash_1, "flash-1"},
      Word{AttentionKernel::flash_2, "flash-2"}, Word{AttentionKernel::unfused, "unfused"}};
}

// Flash attention of any generation: one kernel that keeps no scores in memory.
constexpr bool is_flash(AttentionKernel kernel) {
  return kernel != AttentionKernel::unfused;
}

}  // namespace sim
