// Number formats of tensors.
#pragma once

#include <array>
#include <cstdint>

#include "sim/base/words.hpp"

namespace sim {

// nvfp4: two to a byte, and a scale of 8 bits for each 16 (NVIDIA, Transformer Engine,
// NVFP4BlockScaling).
enum class DType : std::uint8_t { fp32, tf32, bf16, fp16, fp8, nvfp4 };

constexpr auto words_of(DType) {
  return std::array{Word{DType::fp32, "fp32"}, Word{DType::tf32, "tf32"},
                    Word{DType::bf16, "bf16"}, Word{DType::fp16, "fp16"},
                    Word{DType::fp8, "fp8"},   Word{DType::nvfp4, "nvfp4"}};
}

// Formats of operands that are cast for a product, with scales beside them.
constexpr bool is_quantized(DType dtype) {
  return dtype == DType::fp8 || dtype == DType::nvfp4;
}

// Bytes of one element in memory (tf32 is stored as fp32); of nvfp4 the least that can be
// addressed.
constexpr int bytes_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
    case DType::tf32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp8:
    case DType::nvfp4:
      return 1;
  }
  return 0;
}

// Bytes of an element of a product's operand, its scales included.
constexpr double operand_bytes_of(DType dtype) {
  return dtype == DType::nvfp4 ? 0.5 + 1.0 / 16 : bytes_of(dtype);
}

}  // namespace sim
