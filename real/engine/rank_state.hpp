// The state of a rank in its arena, by elements of buckets: weights in their format, fp32 masters
// and moments of what it owns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "real/engine/backend.hpp"
#include "real/engine/parameters.hpp"

namespace real {

// The pieces of one bucket, by place.
class BucketPieces {
 public:
  void add(const Piece& piece) { pieces_.push_back(piece); }
  // visit(piece, from, to): elements [from, to) of the piece lie in [first, last) of the bucket.
  template <class Visit>
  void for_each_overlap(std::int64_t first, std::int64_t last, Visit visit) const {
    auto piece = std::partition_point(pieces_.begin(), pieces_.end(),
                                      [&](const Piece& p) { return p.end() <= first; });
    for (; piece != pieces_.end() && piece->first < last; ++piece) {
      visit(*piece, std::max<std::int64_t>(first - piece->first, 0),
            std::min(piece->elements(), last - piece->first));
    }
  }

 private:
  std::vector<Piece> pieces_;
};
std::vector<BucketPieces> bucket_pieces(const BoundProgram& bound,
                                        const std::vector<Parameter>& parameters);

// The numbers that Adam keeps, in their order in BoundBucket::optimizer.
enum class StateKind : std::uint8_t { master, first_moment, second_moment };

// work(first, count) for equal shares of [0, size), on so many threads at once.
void in_shares(std::int64_t size, int threads,
               const std::function<void(std::int64_t, std::int64_t)>& work);

// fill(bucket, first element, values) is asked for all weights that the rank holds, in pieces of a
// few MiB; they are written as weights, and as masters where there are any. While one piece is
// written, by a thread of its own, the next is asked for. `threads` round numbers to 16 bits.
using FillWeights = std::function<void(std::uint32_t, std::int64_t, std::span<float>)>;
void write_weights(const BoundProgram& bound, Backend& backend, const FillWeights& fill,
                   int threads = 1);

// Writes numbers in this format.
void write_values(Backend& backend, std::int64_t offset, sim::DType dtype,
                  std::vector<float> values);

// Elements of the owned part of a bucket, counted from its start. `master`: the weights themselves
// where there are no masters. Moments in bf16 come and go as fp32.
void read_owned(const BoundProgram& bound, Backend& backend, std::uint32_t bucket, StateKind kind,
                std::int64_t first, std::span<float> values);
void write_moments(const BoundProgram& bound, Backend& backend, std::uint32_t bucket,
                   StateKind kind, std::int64_t first, std::span<const float> values);

}  // namespace real
