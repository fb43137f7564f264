// Kernels of compressed gradients and parameters (sim::Layout::compression). Backends that do not
// have them leave the table out; sim/plan/rules/compression.md says what each scheme computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "real/engine/kernels.hpp"
#include "real/engine/kernels/lamb.hpp"
#include "sim/layout/layout.hpp"
#include "sim/program/buffers.hpp"

namespace real::kernels {

// A bucket of gradients on one rank, all in fp32.
struct CompressedBucket {
  sim::GradientCompression scheme = sim::GradientCompression::none;
  std::int64_t elements = 0, padded = 0;
  int ranks = 1, rank = 0;    // that reduce it, and which of them this is
  int inner = 0;              // ranks on a node; 0: one level
  std::int64_t selected = 0;  // top_k, random_k
  std::int64_t part = 0;      // elements that one rank averages: one_bit, int8, int4
  int factor_columns = 0;     // power_sgd
  std::span<const sim::MatrixPlace> matrices{};
  std::uint64_t seed = 0;  // of this bucket, the same on all ranks
  float beta1 = 0;         // one_bit, one_bit_lamb: of the momentum
  float* moment = nullptr;
  const AdamStep* step = nullptr;
  std::span<const BoundTensor> tensors{};  // one_bit_lamb, of which `numbers` are kept
  float* numbers = nullptr;
  int bits() const { return scheme == sim::GradientCompression::int8 ? 8 : 4; }
};

// gradient: [padded]; residual: kept from step to step, zero at first (buffers.hpp,
// ParameterBucket); message: what goes out.
void compress(const CompressedBucket& bucket, const float* gradient, float* residual,
              std::byte* message, StreamHandle stream);
// came: what arrived; factor: what arrived first, where it is read again (power_sgd).
struct Recompressed {
  float* residual = nullptr;
  float* factor = nullptr;
  const std::byte* came = nullptr;
  std::byte* message = nullptr;
};
void recompress(const CompressedBucket& bucket, const Recompressed& operands, StreamHandle stream);
// gradient: the average of the ranks, [padded] or, of int8 and int4, the part of this rank.
struct Decompressed {
  const std::byte* came = nullptr;
  const float* factor = nullptr;
  float* residual = nullptr;
  float* gradient = nullptr;
};
void decompress(const CompressedBucket& bucket, const Decompressed& operands, StreamHandle stream);

// `pieces` pieces of `elements` numbers each, one after another, each with scales of its own.
void quantize(std::int64_t elements, std::int64_t pieces, int bits, const float* from,
              std::byte* to, StreamHandle stream);
void dequantize(std::int64_t elements, std::int64_t pieces, int bits, const std::byte* from,
                float* to, StreamHandle stream);

// The update of 1-bit Adam behind its warm-up (Tang et al. 2021, algorithm 1): the gradient is the
// averaged momentum, the second moment stays: m = g; w -= rate (m / (sqrt(v) + epsilon) + decay w).
void one_bit_update(const Adam& settings, const AdamState& state, std::int64_t elements,
                    const DecayRanges& decay_ranges, StreamHandle stream);

struct CompressionTable {
  decltype(&kernels::compress) compress = nullptr;
  decltype(&kernels::recompress) recompress = nullptr;
  decltype(&kernels::decompress) decompress = nullptr;
  decltype(&kernels::quantize) quantize = nullptr;
  decltype(&kernels::dequantize) dequantize = nullptr;
  decltype(&kernels::one_bit_update) one_bit_update = nullptr;
};

}  // namespace real::kernels
