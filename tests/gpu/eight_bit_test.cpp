// Casts to 8 bits: the codes of real/engine/kernels/float8.hpp, to the bit, in both orders.
#include "real/engine/kernels/eight_bit.hpp"

#include "tests/catch.hpp"
#include "tests/gpu/device_array.hpp"

using namespace gpu_test;
using real::Float8;
using real::kernels::TensorScale;
using sim::DType;

namespace {

// Every kind of number: normal and subnormal ones, too large ones, ties, NaN.
Numbers all_kinds(std::size_t count, DType dtype) {
  Numbers numbers = random_numbers(7, count, dtype);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] *= std::exp2(static_cast<double>(i % 40) - 24);
  numbers[3] = NAN;
  numbers[5] = 0.001953125 * 1.5;  // between the first two codes of E4M3
  numbers[6] = -1e30;
  return numbers;
}

}  // namespace

TEST_CASE("tensors are cast to 8 bits in both orders", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const Float8 format = GENERATE(Float8::e4m3, Float8::e5m2);
  const std::size_t rows = GENERATE(16, 144), columns = GENERATE(48, 68);
  const Numbers numbers = all_kinds(rows * columns, dtype);
  const Array values{dtype, numbers};
  const Values<TensorScale> scale{{TensorScale{.scale = 3, .inverse = 1.0f / 3}}};
  const Values<TensorScale> kept{{TensorScale{.scale = 0, .inverse = 0}}};
  const Values<float> maximum{{0.25f}};
  const std::vector<std::uint8_t> nothing(rows * columns, 0x55);
  const Values<std::uint8_t> codes{nothing}, turned{nothing}, again{nothing};
  const auto height = static_cast<std::int64_t>(rows), width = static_cast<std::int64_t>(columns);
  real::kernels::encode({.dtype = dtype, .format = format, .rows = height, .columns = width},
                        {.values = values.data(),
                         .scale = scale.data(),
                         .kept = kept.data(),
                         .maximum = maximum.data(),
                         .rows = codes.data(),
                         .turned = turned.data()},
                        nullptr);
  real::kernels::turn_codes(height, width, codes.data(), again.data(), nullptr);
  const auto got = codes.values(), other = turned.values();
  const Numbers rounded = values.numbers();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::uint8_t expected = real::to_float8(static_cast<float>(rounded[i]) * 3, format);
    wrong += got[i] == expected && other[i % columns * rows + i / columns] == expected ? 0 : 1;
  }
  CHECK(wrong == 0);
  CHECK(again.values() == other);
  CHECK(kept.values()[0].scale == 3);
  CHECK(std::isnan(maximum.values()[0]));  // the largest of all
}

TEST_CASE("current scales are made of the maximum, which is zero again", "[gpu]") {
  const DType dtype = GENERATE(DType::fp32, DType::bf16);
  const std::size_t count = GENERATE(7, 2000);
  Numbers numbers = random_numbers(3, count, dtype);
  numbers[count / 2] = -3.5;
  const Array values{dtype, numbers};
  const Values<float> maximum{{0}};
  const Values<TensorScale> scale{{TensorScale{}}};
  real::kernels::find_maximum(dtype, static_cast<std::int64_t>(count), values.data(),
                              maximum.data(), nullptr);
  CHECK(maximum.values()[0] == 3.5f);
  real::kernels::make_scale(Float8::e4m3, maximum.data(), scale.data(), nullptr);
  CHECK(scale.values()[0].scale == 128);
  CHECK(scale.values()[0].inverse == 1.0f / 128);
  CHECK(maximum.values()[0] == 0);
}

TEST_CASE("delayed scales follow the largest maximum of the history", "[gpu]") {
  constexpr auto history = static_cast<std::size_t>(real::kernels::scale_history);
  const Values<float> maxima{{4, 0, 7}}, all{{0, 0, 0}}, kept{std::vector<float>(3 * history)};
  const Values<TensorScale> scales{std::vector<TensorScale>(3)};
  const Values<std::int32_t> updates{{0, 0, static_cast<std::int32_t>(history) + 2}};
  const real::kernels::DelayedScales state{.format = Float8::e5m2,
                                           .tensors = 3,
                                           .maxima = maxima.data(),
                                           .scales = scales.data(),
                                           .history = kept.data(),
                                           .updates = updates.data()};
  for (int round = 0; round < 2; ++round) {
    collect_maxima(state, all.data(), nullptr);
    CHECK(maxima.values() == std::vector<float>{0, 0, 0});
    update_scales(state, all.data(), nullptr);
  }
  CHECK(scales.values()[0].scale == 57344.0f / 4);
  CHECK(scales.values()[1].scale == 1);
  CHECK(scales.values()[2].scale == 8192);
  CHECK(scales.values()[2].inverse == 1.0f / 8192);
  CHECK(kept.values()[2 * history + 2] == 7);
  CHECK(updates.values()[1] == 2);
}
