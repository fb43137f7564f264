// bf16 on the CPU: the upper half of a float, rounded to nearest even (NaN stays NaN).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace fakes {

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

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
