// bf16 on the CPU: the upper half of a float, rounded to nearest even (NaN stays NaN).
#pragma once

#include <cstdint>
#include <cstring>

#include "real/host/operands.hpp"

namespace fakes {

using real::host::from_bf16;
using real::host::to_bf16;

// Element i of an array of floats or bf16.
inline float load(const void* memory, bool is_bf16, std::int64_t i) {
  if (is_bf16) return from_bf16(static_cast<const std::uint16_t*>(memory)[i]);
  return static_cast<const float*>(memory)[i];
}
inline void store(void* memory, bool is_bf16, std::int64_t i, float value) {
  if (is_bf16) {
    static_cast<std::uint16_t*>(memory)[i] = to_bf16(value);
  } else {
    static_cast<float*>(memory)[i] = value;
  }
}

}  // namespace fakes
