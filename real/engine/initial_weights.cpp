#include "real/engine/initial_weights.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>
#include <thread>

#include "real/engine/rank_state.hpp"
#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace real {
namespace {

// FNV-1a (Fowler, Noll & Vo, draft-eastlake-fnv), 64 bit: of a name, the stream of its numbers.
std::uint64_t hash_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3ULL;
  return hash;
}

// Box and Muller (1958): two uniform numbers make two normal ones, here neighbours.
struct Pair {
  double even = 0, odd = 0;
};
Pair normal_pair(std::uint64_t seed, std::uint64_t stream, std::int64_t index) {
  const auto at = 2 * static_cast<std::uint64_t>(index);
  const double radius = std::sqrt(-2.0 * std::log(sim::uniform(seed, stream, at)));
  const double angle = 2.0 * std::numbers::pi * sim::uniform(seed, stream, at + 1);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

void normal_values(const Parameter& parameter, std::uint64_t seed, std::int64_t first,
                   std::span<float> values) {
  const std::uint64_t stream = hash_of(parameter.name);
  const auto size = static_cast<std::int64_t>(values.size());
  for (std::int64_t i = 0; i < size;) {
    const std::int64_t index = first + i;
    const Pair pair = normal_pair(seed, stream, index / 2);
    const auto put = [&](double value) {
      values[static_cast<std::size_t>(i++)] = static_cast<float>(value * parameter.deviation);
    };
    if (index % 2 == 0) put(pair.even);
    if (i < size) put(pair.odd);
  }
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

}  // namespace

void initial_values(const Parameter& parameter, std::uint64_t seed, std::int64_t first,
                    std::span<float> values) {
  switch (parameter.initial) {
    case InitialValues::normal:
      return normal_values(parameter, seed, first, values);
    case InitialValues::ones:
      return std::fill(values.begin(), values.end(), 1.0F);
    case InitialValues::zeros:
      return std::fill(values.begin(), values.end(), 0.0F);
  }
}

void write_initial_state(const BoundProgram& bound, const std::vector<Parameter>& parameters,
                         std::uint64_t seed, int threads, Backend& backend) {
  SIM_CHECK(threads >= 1, threads);
  const std::vector<BucketPieces> buckets = bucket_pieces(bound, parameters);
  write_weights(
      bound, backend, [&](std::uint32_t bucket, std::int64_t first, std::span<float> values) {
        const auto size = static_cast<std::int64_t>(values.size());
        const std::int64_t share = (size + threads - 1) / threads;
        std::vector<std::thread> workers;
        for (std::int64_t at = share; at < size; at += share) {
          const std::int64_t count = std::min(share, size - at);
          workers.emplace_back([&, at, count] {
            fill_part(
                buckets[bucket], parameters, seed, first + at,
                values.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)));
          });
        }
        fill_part(buckets[bucket], parameters, seed, first,
                  values.first(static_cast<std::size_t>(std::min(share, size))));
        for (std::thread& worker : workers)
          worker.join();
      });
  zero_moments(bound, backend);
}

}  // namespace real
