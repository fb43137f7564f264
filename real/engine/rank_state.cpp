#include "real/engine/rank_state.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "sim/base/check.hpp"

namespace real {
namespace {

constexpr std::int64_t most_allocated = 4LL << 20;  // of one piece of work: 16 MiB of fp32

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

// A piece of a bucket's weights on its way into the arena.
struct WeightPiece {
  std::vector<float> values;
  std::vector<std::uint16_t> narrow;  // the same in 16 bits, where the weights are

  std::span<const std::byte> as(sim::DType dtype) const {
    return dtype == sim::DType::fp32 ? std::as_bytes(std::span{values})
                                     : std::as_bytes(std::span{narrow});
  }
};

void convert(WeightPiece& piece, sim::DType dtype, int threads) {
  if (dtype == sim::DType::fp32) return;
  SIM_CHECK(dtype == sim::DType::bf16 || dtype == sim::DType::fp16, static_cast<int>(dtype));
  piece.narrow.resize(piece.values.size());
  in_shares(std::ssize(piece.values), threads, [&](std::int64_t at, std::int64_t count) {
    const auto from = piece.values.begin() + at;
    const auto to = piece.narrow.begin() + at;
    if (dtype == sim::DType::bf16)
      std::transform(from, from + count, to, to_bf16);
    else
      std::transform(from, from + count, to, to_fp16);
  });
}

// Offset of an owned element in the arena.
std::int64_t place_of(const BoundProgram& bound, const BoundBucket& bucket, StateKind kind,
                      std::int64_t element) {
  const bool masters = bound.plan->layout.master_weights && bucket.optimizer.exists();
  if (kind == StateKind::master && !masters) {
    const bool whole = bucket.weight.bytes > bucket.owned * 4;
    return bucket.weight.offset + ((whole ? bucket.owned_first : 0) + element) * 4;
  }
  if (kind == StateKind::master) return bucket.optimizer.offset + element * 4;
  const std::int64_t before = kind == StateKind::second_moment ? bucket.owned : 0;
  return bucket.optimizer.offset + (masters ? bucket.owned * 4 : 0) +
         (before + element) * sim::bytes_of(bound.plan->layout.moment_dtype);
}

sim::DType format_of(const BoundProgram& bound, StateKind kind) {
  return kind == StateKind::master ? sim::DType::fp32 : bound.plan->layout.moment_dtype;
}

// Elements of a bucket: those held begin with `start`, a piece `at` elements behind that.
struct PiecePlace {
  std::int64_t start = 0, at = 0;
};

// As weights; and what of it the rank owns as masters and as what the ranks have in common, where
// there are any.
void write_piece(const BoundProgram& bound, Backend& backend, const BoundBucket& bucket,
                 const PiecePlace& place, const WeightPiece& piece) {
  const sim::DType dtype = bound.plan->layout.activation_dtype;
  backend.write(bucket.weight.offset + place.at * sim::bytes_of(dtype), piece.as(dtype));
  const std::int64_t first = place.start + place.at;
  const std::int64_t from = std::max(first, bucket.owned_first);
  const std::int64_t to =
      std::min(first + std::ssize(piece.values), bucket.owned_first + bucket.owned);
  if (from >= to) return;
  const auto owned = std::as_bytes(std::span{piece.values}.subspan(
      static_cast<std::size_t>(from - first), static_cast<std::size_t>(to - from)));
  const std::int64_t at = from - bucket.owned_first;
  if (bucket.outer.exists()) backend.write(bucket.outer.offset + at * 4, owned);
  if (bound.plan->layout.master_weights && bucket.optimizer.exists())
    backend.write(place_of(bound, bucket, StateKind::master, at), owned);
}

}  // namespace

std::vector<BucketPieces> bucket_pieces(const BoundProgram& bound,
                                        const std::vector<Parameter>& parameters) {
  std::vector<BucketPieces> buckets(bound.buckets.size());
  for (const Piece& piece : pieces_of(bound, parameters))
    buckets[piece.bucket].add(piece);
  return buckets;
}

void in_shares(std::int64_t size, int threads,
               const std::function<void(std::int64_t, std::int64_t)>& work) {
  SIM_CHECK(threads >= 1, threads);
  const std::int64_t share = (size + threads - 1) / threads;
  std::vector<std::jthread> workers;
  for (std::int64_t at = share; at < size; at += share)
    workers.emplace_back([&work, at, count = std::min(share, size - at)] { work(at, count); });
  work(0, std::min(share, size));
}

void write_weights(const BoundProgram& bound, Backend& backend, const FillWeights& fill,
                   int threads) {
  const sim::DType dtype = bound.plan->layout.activation_dtype;
  const std::int64_t element = sim::bytes_of(dtype);
  // Two in turn: one is made while the other is on its way to the device.
  std::array<WeightPiece, 2> pieces;
  std::future<void> written;
  std::size_t turn = 0;
  for (std::uint32_t b = 0; b < bound.buckets.size(); ++b) {
    const BoundBucket& bucket = bound.buckets[b];
    const std::int64_t held = bucket.weight.bytes / element;
    const std::int64_t start = held == bucket.padded ? 0 : bucket.owned_first;
    for (std::int64_t at = 0; at < held; at += most_allocated, turn = 1 - turn) {
      WeightPiece& piece = pieces[turn];
      piece.values.resize(static_cast<std::size_t>(std::min(most_allocated, held - at)));
      fill(b, start + at, piece.values);
      convert(piece, dtype, threads);
      if (written.valid()) written.get();
      written = std::async(std::launch::async, [&bound, &backend, &bucket, &piece, start, at] {
        write_piece(bound, backend, bucket, {.start = start, .at = at}, piece);
      });
    }
  }
  if (written.valid()) written.get();
}

void write_values(Backend& backend, std::int64_t offset, sim::DType dtype,
                  std::vector<float> values) {
  WeightPiece piece{.values = std::move(values), .narrow = {}};
  convert(piece, dtype, 1);
  backend.write(offset, piece.as(dtype));
}

void read_owned(const BoundProgram& bound, Backend& backend, std::uint32_t bucket, StateKind kind,
                std::int64_t first, std::span<float> values) {
  const std::int64_t place = place_of(bound, bound.buckets[bucket], kind, first);
  if (format_of(bound, kind) == sim::DType::fp32)
    return backend.read(place, std::as_writable_bytes(values));
  std::vector<std::uint16_t> narrow(values.size());
  backend.read(place, std::as_writable_bytes(std::span{narrow}));
  std::transform(narrow.begin(), narrow.end(), values.begin(), [](std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  });
}

void write_moments(const BoundProgram& bound, Backend& backend, std::uint32_t bucket,
                   StateKind kind, std::int64_t first, std::span<const float> values) {
  SIM_CHECK(kind != StateKind::master, bucket);
  const std::int64_t place = place_of(bound, bound.buckets[bucket], kind, first);
  const sim::DType dtype = format_of(bound, kind);
  if (dtype == sim::DType::fp32) return backend.write(place, std::as_bytes(values));
  write_values(backend, place, dtype, {values.begin(), values.end()});
}

}  // namespace real
