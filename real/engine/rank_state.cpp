#include "real/engine/rank_state.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "sim/base/check.hpp"

namespace real {
namespace {

constexpr std::int64_t most_elements = 4LL << 20;  // of one piece of work: 16 MiB of fp32

// Round to nearest, ties to even, as CUDA's __float2bfloat16_rn; a NaN stays one.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// IEEE 754 binary16, round to nearest, ties to even (__float2half_rn).
std::uint16_t to_fp16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const float size = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (size >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7c00U);
  // Below the smallest normal number all are multiples of 2^-24. (nearbyint rounds to even.)
  if (size < 0x1.0p-14F)
    return static_cast<std::uint16_t>(sign |
                                      static_cast<std::uint16_t>(std::nearbyint(size * 0x1.0p24F)));
  const auto magnitude = std::bit_cast<std::uint32_t>(size);
  const std::uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - (112U << 23)) >> 13));
}

template <class Convert>
void write_16_bit(Backend& backend, std::int64_t offset, std::span<const float> values,
                  Convert convert) {
  std::vector<std::uint16_t> converted(values.size());
  std::transform(values.begin(), values.end(), converted.begin(), convert);
  backend.write(offset, std::as_bytes(std::span{converted}));
}

void write_as(Backend& backend, sim::DType dtype, std::int64_t offset,
              std::span<const float> values) {
  switch (dtype) {
    case sim::DType::fp32:
      return backend.write(offset, std::as_bytes(values));
    case sim::DType::bf16:
      return write_16_bit(backend, offset, values, to_bf16);
    case sim::DType::fp16:
      return write_16_bit(backend, offset, values, to_fp16);
    default:
      SIM_CHECK(false, static_cast<int>(dtype));
  }
}

// Offset of an owned element in the arena.
std::int64_t place_of(const BoundProgram& bound, const BoundBucket& bucket, StateKind kind,
                      std::int64_t element) {
  const bool masters = bound.plan->layout.master_weights;
  if (kind == StateKind::master && !masters) {
    const bool whole = bucket.weight.bytes > bucket.owned * 4;
    return bucket.weight.offset + ((whole ? bucket.owned_first : 0) + element) * 4;
  }
  const std::int64_t index = static_cast<std::int64_t>(kind) - (masters ? 0 : 1);
  return bucket.optimizer.offset + (index * bucket.owned + element) * 4;
}

}  // namespace

std::vector<BucketPieces> bucket_pieces(const BoundProgram& bound,
                                        const std::vector<Parameter>& parameters) {
  std::vector<BucketPieces> buckets(bound.buckets.size());
  for (const Piece& piece : pieces_of(bound, parameters))
    buckets[piece.bucket].add(piece);
  return buckets;
}

void write_weights(const BoundProgram& bound, Backend& backend, const FillWeights& fill) {
  const sim::DType dtype = bound.plan->layout.activation_dtype;
  const std::int64_t element = sim::bytes_of(dtype);
  std::vector<float> values;
  for (std::uint32_t b = 0; b < bound.buckets.size(); ++b) {
    const BoundBucket& bucket = bound.buckets[b];
    const std::int64_t held = bucket.weight.bytes / element;
    const std::int64_t start = held == bucket.padded ? 0 : bucket.owned_first;
    for (std::int64_t at = 0; at < held; at += most_elements) {
      values.resize(static_cast<std::size_t>(std::min(most_elements, held - at)));
      fill(b, start + at, values);
      write_as(backend, dtype, bucket.weight.offset + at * element, values);
      if (!bound.plan->layout.master_weights) continue;
      // What of this the rank owns.
      const std::int64_t from = std::max(start + at, bucket.owned_first);
      const std::int64_t to = std::min(start + at + static_cast<std::int64_t>(values.size()),
                                       bucket.owned_first + bucket.owned);
      if (from >= to) continue;
      backend.write(
          place_of(bound, bucket, StateKind::master, from - bucket.owned_first),
          std::as_bytes(std::span{values}.subspan(static_cast<std::size_t>(from - start - at),
                                                  static_cast<std::size_t>(to - from))));
    }
  }
}

void zero_moments(const BoundProgram& bound, Backend& backend) {
  const std::vector<float> zeros(static_cast<std::size_t>(most_elements));
  for (const BoundBucket& bucket : bound.buckets) {
    for (std::int64_t at = 0; at < 2 * bucket.owned; at += most_elements) {
      const auto count = static_cast<std::size_t>(std::min(most_elements, 2 * bucket.owned - at));
      backend.write(place_of(bound, bucket, StateKind::first_moment, at),
                    std::as_bytes(std::span{zeros}.first(count)));
    }
  }
}

void read_owned(const BoundProgram& bound, Backend& backend, std::uint32_t bucket, StateKind kind,
                std::int64_t first, std::span<float> values) {
  backend.read(place_of(bound, bound.buckets[bucket], kind, first), std::as_writable_bytes(values));
}

void write_moments(const BoundProgram& bound, Backend& backend, std::uint32_t bucket,
                   StateKind kind, std::int64_t first, std::span<const float> values) {
  SIM_CHECK(kind != StateKind::master, bucket);
  backend.write(place_of(bound, bound.buckets[bucket], kind, first), std::as_bytes(values));
}

}  // namespace real
