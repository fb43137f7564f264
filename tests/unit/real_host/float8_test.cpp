// Numbers of 8 bits and scales, against the standards' own words (float8.hpp names them).
#include "real/engine/kernels/float8.hpp"

#include <cmath>
#include <limits>

#include "real/host/kernels/host_kernels.hpp"
#include "real/host/kernels/kernels_eight_bit.hpp"
#include "tests/catch.hpp"

namespace real {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// Table 1 of the OCP specification: S EEEE MMM with bias 7 and one NaN, S EEEEE MM with bias 15,
// infinities and NaNs.
double number(int code, Float8 format) {
  const bool narrow = format == Float8::e4m3;
  const int bits = narrow ? 3 : 2, bias = narrow ? 7 : 15;
  const int exponent = (code & 0x7f) >> bits, mantissa = code & ((1 << bits) - 1);
  const double sign = code >= 0x80 ? -1 : 1;
  if (narrow && (code & 0x7f) == 0x7f) return NAN;
  if (!narrow && exponent == 31) return mantissa == 0 ? sign * HUGE_VAL : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - bits);
  return sign * std::ldexp((1 << bits) + mantissa, exponent - bias - bits);
}

TEST_CASE("all codes of 8 bits are the numbers of the standard, and casts find them", "[float8]") {
  for (const Float8 format : {Float8::e4m3, Float8::e5m2})
    for (int code = 0; code < 256; ++code) {
      CAPTURE(static_cast<int>(format), code);
      const float value = from_float8(static_cast<std::uint8_t>(code), format);
      const double expected = number(code, format);
      if (std::isnan(expected)) {
        CHECK(std::isnan(value));
        CHECK(to_float8(value, format) == 0x7f);
      } else {
        CHECK(static_cast<double>(value) == expected);
        CHECK(std::signbit(value) == (code >= 0x80));
        if (std::isfinite(expected)) CHECK(to_float8(value, format) == code);
      }
    }
  CHECK(number(0x7e, Float8::e4m3) == 448);
  CHECK(number(0x7b, Float8::e5m2) == 57344);
  CHECK(number(0x01, Float8::e4m3) == std::ldexp(1, -9));
  CHECK(number(0x01, Float8::e5m2) == std::ldexp(1, -16));
}

// The middle of two neighbours goes to the even code, a little more or less to the nearer one.
TEST_CASE("casts to 8 bits round to the nearest, ties to even", "[float8]") {
  for (const Float8 format : {Float8::e4m3, Float8::e5m2})
    for (std::uint32_t code = 0; code < largest_code(format); ++code) {
      CAPTURE(static_cast<int>(format), code);
      const double low = number(static_cast<int>(code), format);
      const double high = number(static_cast<int>(code) + 1, format);
      const auto middle = static_cast<float>((low + high) / 2);
      const std::uint32_t even = code % 2 == 0 ? code : code + 1;
      CHECK(to_float8(middle, format) == even);
      CHECK(to_float8(-middle, format) == (even | 0x80));
      CHECK(to_float8(std::nextafter(middle, infinity), format) == code + 1);
      CHECK(to_float8(std::nextafter(middle, 0.0F), format) == code);
    }
}

TEST_CASE("casts to 8 bits saturate, and keep NaN", "[float8]") {
  for (const Float8 format : {Float8::e4m3, Float8::e5m2})
    for (const float value : {largest(format) * 1.01F, 1e30F, infinity}) {
      CHECK(to_float8(value, format) == largest_code(format));
      CHECK(to_float8(-value, format) == (largest_code(format) | 0x80));
    }
  CHECK(to_float8(std::nanf(""), Float8::e4m3) == 0x7f);
  CHECK(to_float8(-std::nanf(""), Float8::e5m2) == 0x7f);
  CHECK(to_float8(1e-30F, Float8::e5m2) == 0);
  CHECK(to_float8(std::numeric_limits<float>::denorm_min(), Float8::e4m3) == 0);
}

TEST_CASE("scales map the maximum to the largest number", "[float8]") {
  CHECK(scale_for(2, Float8::e4m3, 9) == 224);
  CHECK(scale_for(7, Float8::e5m2, 9) == 8192);
  for (const float none : {0.0F, infinity, std::nanf("")})
    CHECK(scale_for(none, Float8::e4m3, 9) == 9);
  CHECK(scale_for(1e-40F, Float8::e5m2, 9) == std::numeric_limits<float>::max());
  CHECK(power_scale_for(3, Float8::e4m3) == 128);  // 448 / 3 = 149.3
  CHECK(power_scale_for(3.5, Float8::e4m3) == 128);
  // 448 = 1.75 x 2^8: a maximum of 448 x 2^n has the exponent n, anything above the next one.
  CHECK(block_exponent(448, Float8::e4m3) == 127);
  CHECK(block_exponent(std::nextafter(448.0F, infinity), Float8::e4m3) == 128);
  CHECK(block_exponent(7, Float8::e4m3) == 121);
  CHECK(block_exponent(0, Float8::e4m3) == 0);
  CHECK(exponent_value(121) * exponent_inverse(121) == 1);
  CHECK(exponent_value(0) == std::ldexp(1.0F, -127));
}

TEST_CASE("delayed scales follow the largest maximum of the history", "[float8]") {
  constexpr auto history = static_cast<std::size_t>(kernels::scale_history);
  std::vector<float> maxima(2), kept(2 * history);
  std::vector<kernels::TensorScale> scales(2);
  std::vector<std::int32_t> updates(2);
  const kernels::DelayedScales state{.format = Float8::e4m3,
                                     .tensors = 2,
                                     .maxima = maxima.data(),
                                     .scales = scales.data(),
                                     .history = kept.data(),
                                     .updates = updates.data()};
  const auto update = [&](float first) {
    const std::vector<float> all{first, 0};
    host::update_scales(state, all.data(), nullptr);
    CHECK(scales[1].scale == 1);  // nothing was seen
    return scales[0].scale;
  };
  CHECK(update(4) == 112);
  CHECK(update(2) == 112);
  CHECK(update(8) == 56);
  CHECK(scales[0].inverse == 1 / 56.0F);
  CHECK(update(infinity) == 56);
  for (std::size_t i = 0; i + 1 < history; ++i)
    update(1);
  CHECK(update(1) == 448);  // what was before has left
}

// Blocks lie along the rows of either order; squares have one scale in both.
TEST_CASE("values come back from codes of blocks", "[float8]") {
  constexpr std::int64_t rows = 128, columns = 256;
  std::vector<float> values(rows * columns);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(i % 7));
  for (const Scaling scaling :
       {Scaling::blocks_of_32, Scaling::blocks_of_128, Scaling::squares_of_128}) {
    const auto bytes = static_cast<std::size_t>(coded_bytes(scaling, rows, columns));
    std::vector<std::uint8_t> codes(bytes), turned(bytes);
    host::encode({.dtype = sim::DType::fp32, .scaling = scaling, .rows = rows, .columns = columns},
                 {.values = values.data(), .rows = codes.data(), .turned = turned.data()}, nullptr);
    const CodedOperands coded{.exist = true, .first_scaling = scaling};
    const auto back =
        host::decoded(coded, true, rows, columns, codes.data(), codes.data() + rows * columns);
    const auto across =
        host::decoded(coded, true, columns, rows, turned.data(), turned.data() + rows * columns);
    double worst = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t other = i % columns * rows + i / columns;
      for (const float got : {back[i], across[other]})
        // Half of the last of four bits; scaled by a power of two, the largest is 224 at least.
        worst = std::max(worst, static_cast<double>(std::fabs(got - values[i])) /
                                    std::max(static_cast<double>(std::fabs(values[i])), 1e-2));
    }
    CAPTURE(static_cast<int>(scaling));
    CHECK(worst <= 1.0 / 16);
  }
}

}  // namespace
}  // namespace real
