#include "real/engine/initial_weights.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "real/engine/kernels/nf4.hpp"
#include "real/engine/kernels/normal_values.hpp"
#include "real/engine/rank_state.hpp"

namespace real {
namespace {

// FNV-1a (Fowler, Noll & Vo, draft-eastlake-fnv), 64 bit: of a name, the stream of its numbers.
std::uint64_t hash_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return hash;
}

// Elements [first, first + values.size()) of a bucket: pieces in order, zero between them.
void fill_part(const BucketPieces& bucket, const std::vector<Parameter>& parameters,
               std::uint64_t seed, std::int64_t first, std::span<float> values) {
  std::fill(values.begin(), values.end(), 0.0F);
  const auto last = first + static_cast<std::int64_t>(values.size());
  bucket.for_each_overlap(first, last, [&](const Piece& piece, std::int64_t from, std::int64_t to) {
    const Parameter& parameter = parameters[piece.parameter];
    for_each_run(
        piece, parameter, from, to, [&](std::int64_t at, std::int64_t element, std::int64_t count) {
          const std::int64_t start = piece.first + at - first;
          initial_values(
              parameter, seed, element,
              values.subspan(static_cast<std::size_t>(start), static_cast<std::size_t>(count)));
        });
  });
}

// Weights that adapters leave as they are, behind each other.
void write_frozen(const BoundProgram& bound, const std::vector<Parameter>& parameters,
                  std::uint64_t seed, Backend& backend) {
  std::int64_t first = bound.host_bytes + bound.arena_bytes;
  for (const std::int64_t at : bound.frozen)
    if (at >= 0) first = std::min(first, at);
  const sim::DType dtype = bound.plan->layout.activation_dtype;
  for (const Piece& piece : frozen_pieces_of(bound, parameters)) {
    std::vector<float> values(static_cast<std::size_t>(piece.elements()));
    for_each_run(piece, parameters[piece.parameter], 0, piece.elements(),
                 [&](std::int64_t at, std::int64_t element, std::int64_t count) {
                   initial_values(parameters[piece.parameter], seed, element,
                                  std::span{values}.subspan(static_cast<std::size_t>(at),
                                                            static_cast<std::size_t>(count)));
                 });
    // Matrices of layers, each of which one rank holds whole.
    const Parameter& parameter = parameters[piece.parameter];
    if (bound.plan->layout.frozen_format == sim::FrozenFormat::nf4 && parameter.columns > 1 &&
        parameter.name.starts_with("layers."))
      round_to_nf4(values);
    write_values(backend, first + piece.first * sim::bytes_of(dtype), dtype, std::move(values));
  }
}

}  // namespace

void initial_values(const Parameter& parameter, std::uint64_t seed, std::int64_t first,
                    std::span<float> values) {
  switch (parameter.initial) {
    case InitialValues::normal:
      return normal_values(seed, hash_of(parameter.name), first, parameter.deviation, values);
    case InitialValues::ones:
      return std::fill(values.begin(), values.end(), 1.0F);
    case InitialValues::zeros:
      return std::fill(values.begin(), values.end(), 0.0F);
  }
}

void write_initial_state(const BoundProgram& bound, const std::vector<Parameter>& parameters,
                         std::uint64_t seed, int threads, Backend& backend) {
  const std::vector<BucketPieces> buckets = bucket_pieces(bound, parameters);
  const auto fill = [&](std::uint32_t bucket, std::int64_t first, std::span<float> values) {
    in_shares(std::ssize(values), threads, [&](std::int64_t at, std::int64_t count) {
      fill_part(buckets[bucket], parameters, seed, first + at,
                values.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)));
    });
  };
  write_weights(bound, backend, fill, threads);
  if (!bound.frozen.empty()) write_frozen(bound, parameters, seed, backend);
}

}  // namespace real
