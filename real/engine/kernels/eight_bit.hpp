// Operands of the kernels that cast tensors to 8 bits. Codes are bytes (float8.hpp) in two orders:
// as the tensor lies, [rows, columns], and turned, [columns, rows]. A product reads both of its
// operands with the dimension that it sums over innermost.
#pragma once

#include <cstdint>

#include "real/engine/kernels/float8.hpp"
#include "sim/base/dtype.hpp"

namespace real {

// Scaling is what a scale reaches over. Of blocks: those of either order lie along its rows.
enum class Scaling : std::uint8_t {
  tensor,
  blocks_of_32,    // MXFP8: an exponent (E8M0) for 32 neighbours of a row
  blocks_of_128,   // a power of two in fp32 for 128 neighbours of a row
  squares_of_128,  // the same for 128 x 128
};
constexpr std::int64_t block_of(Scaling scaling) {
  return scaling == Scaling::tensor ? 1 : scaling == Scaling::blocks_of_32 ? 32 : 128;
}

// Bytes of the scales of [rows, columns] in one order, which lie behind its codes.
// REQUIRES: blocks divide the sizes.
constexpr std::int64_t scale_bytes(Scaling scaling, std::int64_t rows, std::int64_t columns) {
  switch (scaling) {
    case Scaling::blocks_of_32:
      return rows * columns / 32;
    case Scaling::blocks_of_128:
      return rows * columns / 128 * 4;
    case Scaling::squares_of_128:
      return rows * columns / (std::int64_t{128} * 128) * 4;
    default:
      return 0;
  }
}
constexpr std::int64_t coded_bytes(Scaling scaling, std::int64_t rows, std::int64_t columns) {
  return rows * columns + scale_bytes(scaling, rows, columns);
}

namespace kernels {

// TensorScale is that of a whole tensor: what it is multiplied by, and 1 / that.
struct TensorScale {
  float scale = 1, inverse = 1;
};

struct CodedShape {
  sim::DType dtype = sim::DType::bf16;  // of the values
  Float8 format = Float8::e4m3;
  Scaling scaling = Scaling::tensor;
  std::int64_t rows = 0, columns = 0;
};

// Encoded is a cast. Of blocks: values, rows and turned alone, scales behind the codes.
struct Encoded {
  const void* values = nullptr;
  const TensorScale* scale = nullptr;
  TensorScale* kept = nullptr;   // a copy of the scale; null: none
  float* maximum = nullptr;      // raised to the largest magnitude; null: not
  std::uint8_t* rows = nullptr;  // null: not wanted, as the next
  std::uint8_t* turned = nullptr;
};

// Updates of delayed scales look back so far (Transformer Engine, DelayedScaling,
// amax_history_len).
inline constexpr std::int64_t scale_history = 1024;

// DelayedScales are those of tensors of one format, on the device. Nothing is known at first: zeros
// but for scales, which are 1.
struct DelayedScales {
  Float8 format = Float8::e4m3;
  std::int64_t tensors = 0;
  float* maxima = nullptr;  // since the last update
  TensorScale* scales = nullptr;
  float* history = nullptr;         // of each tensor its last maxima, scale_history of them
  std::int32_t* updates = nullptr;  // of each tensor
};

}  // namespace kernels
}  // namespace real
