// Numbers of 8 bits, to the bit (OCP 8-bit Floating Point Specification, revision 1.0; PTX ISA,
// cvt.rn.satfinite): rounded to the nearest, ties to even; what is too large becomes the largest
// number; NaN is 0x7f. And the scales of blocks, as Transformer Engine makes them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace real {

enum class Float8 : std::uint8_t { e4m3, e5m2 };

constexpr int mantissa_bits(Float8 format) {
  return format == Float8::e4m3 ? 3 : 2;
}
constexpr int exponent_bias(Float8 format) {
  return format == Float8::e4m3 ? 7 : 15;
}
// The code of the largest number, and that number.
constexpr std::uint32_t largest_code(Float8 format) {
  return format == Float8::e4m3 ? 0x7e : 0x7b;
}
constexpr float largest(Float8 format) {
  return format == Float8::e4m3 ? 448.0F : 57344.0F;
}

// 2^power of a normal float.
constexpr float power_of_two(int power) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(power + 127) << 23);
}

constexpr std::uint8_t to_float8(float value, Float8 format) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 31 << 7, magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return 0x7f;
  const int mantissa = mantissa_bits(format), bias = exponent_bias(format);
  if (magnitude < std::bit_cast<std::uint32_t>(power_of_two(1 - bias))) {
    // A float whose last bit is that of the subnormal numbers rounds to it in a sum.
    const float unit = power_of_two(24 - bias - mantissa);
    const float sum = std::bit_cast<float>(magnitude) + unit;
    return static_cast<std::uint8_t>(
        sign | (std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(unit)));
  }
  const int dropped = 23 - mantissa;
  const std::uint32_t rounded =
      magnitude + (1U << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1);
  const std::uint32_t code =
      (rounded >> dropped) - (static_cast<std::uint32_t>(127 - bias) << mantissa);
  return static_cast<std::uint8_t>(sign | std::min(code, largest_code(format)));
}

constexpr float from_float8(std::uint8_t code, Float8 format) {
  const int mantissa = mantissa_bits(format), bias = exponent_bias(format);
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80) << 24;
  const std::uint32_t magnitude = code & 0x7f;
  if (magnitude > largest_code(format))
    return std::bit_cast<float>(sign | (magnitude == 0x7c ? 0x7f800000U : 0x7fc00000U));
  const std::uint32_t exponent = magnitude >> mantissa;
  if (exponent == 0) {
    const float value = static_cast<float>(magnitude) * power_of_two(1 - bias - mantissa);
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(
      sign |
      ((magnitude + (static_cast<std::uint32_t>(127 - bias) << mantissa)) << (23 - mantissa)));
}

// The scale of a tensor whose largest magnitude is `maximum`: it maps that to the largest number.
// `otherwise`: where there is none (Transformer Engine at d0067d0d, common/recipe/
// recipe_common.cuh, compute_scale_from_amax; pytorch/fp8.py, _default_sf_compute).
constexpr float scale_for(float maximum, Float8 format, float otherwise) {
  constexpr float huge = 3.402823466e38F;
  if (!(maximum > 0) || maximum > huge) return otherwise;
  return std::min(largest(format) / maximum, huge);
}

// The same as a power of two, not larger (Float8BlockScaling, force_pow_2_scales).
constexpr float power_scale_for(float maximum, Float8 format) {
  const float scale = scale_for(maximum, format, 1);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) & 0xff800000U);
}

// E8M0, the exponent of a power of two (OCP Microscaling Formats Specification 1.0, section 5.4.1):
// the one by which a block's largest magnitude, divided, is the largest number at most
// (Transformer Engine, common/util/ptx.cuh, float_to_e8m0).
constexpr std::uint8_t block_exponent(float maximum, Float8 format) {
  const auto bits = std::bit_cast<std::uint32_t>(maximum * (1 / largest(format)));
  if (bits > 0x7f800000U) return 0xff;
  if (bits == 0x7f800000U) return 0xfe;
  const std::uint32_t exponent = bits >> 23, rest = bits & 0x7fffffU;
  const bool up = rest > 0 && exponent != 0xfe && !(exponent == 0 && rest <= 0x400000U);
  return static_cast<std::uint8_t>(exponent + (up ? 1 : 0));
}
// 2^(exponent - 127); the smallest is a subnormal float.
constexpr float exponent_value(std::uint8_t exponent) {
  if (exponent == 0xff) return std::bit_cast<float>(0x7fc00000U);
  if (exponent == 0) return std::bit_cast<float>(0x00400000U);
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent) << 23);
}
// What a block is multiplied by.
constexpr float exponent_inverse(std::uint8_t exponent) {
  if (exponent == 0xff) return std::bit_cast<float>(0x7fc00000U);
  if (exponent == 0) return 1;
  if (exponent == 0xfe) return std::bit_cast<float>(0x00400000U);
  return std::bit_cast<float>(static_cast<std::uint32_t>(254 - exponent) << 23);
}

}  // namespace real
