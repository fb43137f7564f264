#include "real/host/kernels/kernels_quantized.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/plan/parameters/compression_work.hpp"

namespace real::host {
namespace {

constexpr std::int64_t quantization_block = sim::lowering::quantization_group;

std::int64_t integer_bytes(std::int64_t elements, int bits) {
  return ((elements * bits + 7) / 8 + 3) / 4 * 4;
}

// Two of 4 bits in a byte, the first one below.
void put(std::byte* to, std::int64_t i, int bits, int value) {
  if (bits == 8) {
    to[i] = static_cast<std::byte>(static_cast<std::int8_t>(value));
    return;
  }
  const auto nibble = static_cast<unsigned>(value) & 0xfU;
  const unsigned shift = i % 2 == 0 ? 0 : 4;
  to[i / 2] |= static_cast<std::byte>(nibble << shift);
}

int get(const std::byte* from, std::int64_t i, int bits) {
  if (bits == 8) return static_cast<std::int8_t>(from[i]);
  const unsigned nibble = std::to_integer<unsigned>(from[i / 2]) >> (i % 2 == 0 ? 0 : 4) & 0xfU;
  return nibble >= 8 ? static_cast<int>(nibble) - 16 : static_cast<int>(nibble);
}

constexpr int sign_bit = 8, largest_code = 7;

// The code of a share of the largest magnitude, 0 to 1. Between two powers of two the middle is 1.5
// times the lower one; between the least and zero half of it.
int e3m0_code(float share) {
  if (share < std::ldexp(0.5F, 1 - largest_code)) return 0;
  int exponent = 0;
  const float fraction = std::frexp(share, &exponent);  // from 0.5 to less than 1
  if (fraction < 0.75F) --exponent;
  return std::clamp(exponent + largest_code, 1, largest_code);
}

}  // namespace

std::int64_t quantized_size(std::int64_t elements, int bits) {
  return sim::lowering::quantized_bytes(elements, bits).count();
}

void quantize_piece(std::int64_t elements, int bits, const float* from, std::byte* to) {
  const int most = (1 << (bits - 1)) - 1;
  std::byte* scales = to + integer_bytes(elements, bits);
  std::fill(to, scales, std::byte{0});
  for (std::int64_t first = 0; first < elements;
       first += quantization_block, scales += sizeof(float)) {
    const std::int64_t last = std::min(elements, first + quantization_block);
    float largest = 0;
    for (std::int64_t i = first; i < last; ++i)
      largest = std::max(largest, std::abs(from[i]));
    const float scale = largest / static_cast<float>(most);
    std::memcpy(scales, &scale, sizeof scale);
    if (scale == 0) continue;
    for (std::int64_t i = first; i < last; ++i)
      put(to, i, bits, std::clamp(static_cast<int>(std::lround(from[i] / scale)), -most, most));
  }
}

void dequantize_piece(std::int64_t elements, int bits, const std::byte* from, float* to) {
  const std::byte* scales = from + integer_bytes(elements, bits);
  for (std::int64_t i = 0; i < elements; ++i) {
    float scale = 0;
    std::memcpy(&scale, scales + i / quantization_block * static_cast<std::int64_t>(sizeof scale),
                sizeof scale);
    to[i] = scale * static_cast<float>(get(from, i, bits));
  }
}

void encode_e3m0_piece(std::int64_t elements, const float* from, std::byte* to) {
  std::byte* scales = to + integer_bytes(elements, 4);
  std::fill(to, scales, std::byte{0});
  for (std::int64_t first = 0; first < elements;
       first += quantization_block, scales += sizeof(float)) {
    const std::int64_t last = std::min(elements, first + quantization_block);
    float scale = 0;
    for (std::int64_t i = first; i < last; ++i)
      scale = std::max(scale, std::abs(from[i]));
    std::memcpy(scales, &scale, sizeof scale);
    if (scale == 0) continue;
    for (std::int64_t i = first; i < last; ++i)
      put(to, i, 4, e3m0_code(std::abs(from[i]) / scale) | (from[i] < 0 ? sign_bit : 0));
  }
}

void decode_e3m0_piece(std::int64_t elements, const std::byte* from, float* to) {
  const std::byte* scales = from + integer_bytes(elements, 4);
  for (std::int64_t i = 0; i < elements; ++i) {
    float scale = 0;
    std::memcpy(&scale, scales + i / quantization_block * static_cast<std::int64_t>(sizeof scale),
                sizeof scale);
    const int nibble = get(from, i, 4) & 0xf, code = nibble & 7;
    const float size = code == 0 ? 0.0F : std::ldexp(scale, code - largest_code);
    to[i] = (nibble & sign_bit) != 0 ? -size : size;
  }
}

void quantize(std::int64_t elements, std::int64_t pieces, int bits, const float* from,
              std::byte* to, kernels::StreamHandle /*stream*/) {
  for (std::int64_t piece = 0; piece < pieces; ++piece)
    quantize_piece(elements, bits, from + piece * elements,
                   to + piece * quantized_size(elements, bits));
}

void dequantize(std::int64_t elements, std::int64_t pieces, int bits, const std::byte* from,
                float* to, kernels::StreamHandle /*stream*/) {
  for (std::int64_t piece = 0; piece < pieces; ++piece)
    dequantize_piece(elements, bits, from + piece * quantized_size(elements, bits),
                     to + piece * elements);
}

}  // namespace real::host
