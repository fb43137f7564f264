// The PTX instructions that the kernels wrap (real/cuda/kernels/ptx.cuh), lane by lane, as the PTX
// ISA documents them: "Matrix Fragments for mma.m16n8k16 with floating point type" (section
// 9.7.14.5.8 of PTX ISA 8.x) and "ldmatrix" (9.7.14.5.15).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "tests/gpu/emulation/emulator.hpp"

namespace emulation {

inline float low_half(std::uint32_t pair) {
  return std::bit_cast<float>(pair << 16);
}
inline float high_half(std::uint32_t pair) {
  return std::bit_cast<float>(pair & 0xffff0000U);
}

struct MultiplyOperands {
  std::array<std::uint32_t, 4> a;
  std::array<std::uint32_t, 2> b;
};

// Lane l holds, with group g = l / 4 and t = l % 4:
//   A (16 x 16): a0 row g, a1 row g + 8, columns 2t, 2t+1; a2, a3 the same rows, columns + 8
//   B (16 x 8):  b0 rows 2t, 2t+1 of column g; b1 rows + 8
//   C, D (16 x 8): c0, c1 row g, columns 2t, 2t+1; c2, c3 row g + 8
inline void multiply_16x8x16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
  const WarpView view =
      warp_meet(WarpOp::multiply, MultiplyOperands{{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const int group = lane() / 4;
  const int member = lane() % 4;
  for (int t = 0; t < 4; ++t) {
    const auto rows = view.of<MultiplyOperands>(group * 4 + t).a;
    for (int column = 0; column < 2; ++column) {
      const auto b = view.of<MultiplyOperands>((2 * member + column) * 4 + t).b;
      for (std::size_t half = 0; half < 2; ++half) {
        c[column] += low_half(rows[2 * half]) * low_half(b[half]) +
                     high_half(rows[2 * half]) * high_half(b[half]);
        c[2 + column] += low_half(rows[2 * half + 1]) * low_half(b[half]) +
                         high_half(rows[2 * half + 1]) * high_half(b[half]);
      }
    }
  }
}

// Four 8 x 8 matrices of 16-bit elements; lanes 8 i ... 8 i + 7 give the addresses of the rows of
// matrix i. Lane l receives of each elements 2 (l % 4), + 1 of row l / 4; transposed: of column.
inline void load_matrices(std::uint32_t (&to)[4], const void* row, bool transposed) {
  const WarpView view = warp_meet(WarpOp::matrix_load, row);
  const int group = lane() / 4;
  const int member = lane() % 4;
  for (int matrix = 0; matrix < 4; ++matrix) {
    const auto element = [&](int at_row, int at_column) {
      const auto* address = view.of<const std::byte*>(8 * matrix + at_row) + 2 * at_column;
      std::uint16_t value = 0;
      std::memcpy(&value, address, 2);
      return static_cast<std::uint32_t>(value);
    };
    const std::uint32_t first =
        transposed ? element(2 * member, group) : element(group, 2 * member);
    const std::uint32_t second =
        transposed ? element(2 * member + 1, group) : element(group, 2 * member + 1);
    to[matrix] = first | second << 16;
  }
}

}  // namespace emulation
