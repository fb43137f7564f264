// Number formats of tensors.
#pragma once

#include <array>
#include <cstdint>

#include "sim/base/words.hpp"

namespace sim {

enum class DType : std::uint8_t { fp32, tf32, bf16, fp16, fp8 };

constexpr auto words_of(DType) {
  return std::array{Word{DType::fp32, "fp32"}, Word{DType::tf32, "tf32"}, Word{DType::bf16, "bf16"},
                    Word{DType::fp16, "fp16"}, Word{DType::fp8, "fp8"}};
}

// Bytes of one element in memory (tf32 is stored as fp32).
constexpr int bytes_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
    case DType::tf32:
      return 4;
    case DType::bf16:
    case DType::fp16:
      return 2;
    case DType::fp8:
      return 1;
  }
  return 0;
}

}  // namespace sim
