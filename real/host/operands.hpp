// Operands of the kernel interface as floats: fp32 where it lies, bf16 through a copy, which goes
// back, rounded to the nearest even, when what is written has been written.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/dtype.hpp"

namespace real::host {

// The upper half of a float.
inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40);  // NaN stays NaN
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// In is an operand that a kernel reads. A null pointer: empty.
class In {
 public:
  In(sim::DType dtype, const void* memory, std::int64_t elements) {
    const auto count = static_cast<std::size_t>(memory == nullptr ? 0 : elements);
    if (dtype == sim::DType::fp32) {
      values_ = {static_cast<const float*>(memory), count};
      return;
    }
    SIM_CHECK(dtype == sim::DType::bf16, static_cast<int>(dtype));
    const auto* from = static_cast<const std::uint16_t*>(memory);
    for (std::size_t i = 0; i < count; ++i)
      copy_.push_back(from_bf16(from[i]));
    values_ = copy_;
  }
  In(const In&) = delete;
  In& operator=(const In&) = delete;
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator std::span<const float>() const { return values_; }

 private:
  std::vector<float> copy_;
  std::span<const float> values_;
};

// Out is an operand that a kernel writes, or reads and writes.
class Out {
 public:
  Out(sim::DType dtype, void* memory, std::int64_t elements) {
    const auto count = static_cast<std::size_t>(memory == nullptr ? 0 : elements);
    if (dtype == sim::DType::fp32) {
      values_ = {static_cast<float*>(memory), count};
      return;
    }
    SIM_CHECK(dtype == sim::DType::bf16, static_cast<int>(dtype));
    back_ = static_cast<std::uint16_t*>(memory);
    for (std::size_t i = 0; i < count; ++i)
      copy_.push_back(from_bf16(back_[i]));
    values_ = copy_;
  }
  ~Out() {
    for (std::size_t i = 0; i < copy_.size(); ++i)
      back_[i] = to_bf16(copy_[i]);
  }
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator std::span<float>() const { return values_; }
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator std::span<const float>() const { return values_; }

 private:
  std::vector<float> copy_;
  std::uint16_t* back_ = nullptr;
  std::span<float> values_;
};

}  // namespace real::host
