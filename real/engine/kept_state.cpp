#include "real/engine/kept_state.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace real {
namespace {

// The elements of a bucket from `first` on, out of the parameters; padding is 0.
void gather(const GlobalTensors& tensors, const std::vector<Parameter>& parameters,
            const BucketPieces& pieces, std::int64_t first, std::span<float> values) {
  std::fill(values.begin(), values.end(), 0.0F);
  pieces.for_each_overlap(first, first + std::ssize(values),
                          [&](const Piece& piece, std::int64_t from, std::int64_t to) {
                            for_each_run(
                                piece, parameters[piece.parameter], from, to,
                                [&](std::int64_t at, std::int64_t element, std::int64_t count) {
                                  std::copy_n(tensors[piece.parameter].begin() + element, count,
                                              values.begin() + (piece.first + at - first));
                                });
                          });
}

GlobalTensors held(const BoundProgram& bound, const std::vector<Parameter>& parameters,
                   StateKind kind, Backend& backend) {
  GlobalTensors tensors = zero_tensors(parameters);
  std::vector<float> values;
  for (const Piece& piece : pieces_of(bound, parameters)) {
    const BoundBucket& bucket = bound.buckets[piece.bucket];
    SIM_CHECK(bucket.owned_first == 0 && piece.end() <= bucket.owned, bucket.owned);
    values.resize(static_cast<std::size_t>(piece.elements()));
    read_owned(bound, backend, piece.bucket, kind, piece.first, values);
    for_each_run(piece, parameters[piece.parameter], 0, piece.elements(),
                 [&](std::int64_t at, std::int64_t element, std::int64_t count) {
                   std::copy_n(values.begin() + at, count,
                               tensors[piece.parameter].begin() + element);
                 });
  }
  return tensors;
}

}  // namespace

KeptState keep_state(const BoundProgram& bound, const std::vector<Parameter>& parameters,
                     Backend& backend, std::int64_t next_step) {
  return {.next_step = next_step,
          .masters = held(bound, parameters, StateKind::master, backend),
          .first_moments = held(bound, parameters, StateKind::first_moment, backend),
          .second_moments = held(bound, parameters, StateKind::second_moment, backend)};
}

void restore_state(const KeptState& kept, const BoundProgram& bound,
                   const std::vector<Parameter>& parameters, Backend& backend) {
  const std::vector<BucketPieces> pieces = bucket_pieces(bound, parameters);
  write_weights(bound, backend,
                [&](std::uint32_t bucket, std::int64_t first, std::span<float> values) {
                  gather(kept.masters, parameters, pieces[bucket], first, values);
                });
  for (std::uint32_t b = 0; b < bound.buckets.size(); ++b) {
    std::vector<float> moments(static_cast<std::size_t>(bound.buckets[b].owned));
    for (const auto& [kind, tensors] :
         {std::pair{StateKind::first_moment, &kept.first_moments},
          std::pair{StateKind::second_moment, &kept.second_moments}}) {
      gather(*tensors, parameters, pieces[b], bound.buckets[b].owned_first, moments);
      write_moments(bound, backend, b, kind, 0, moments);
    }
  }
}

}  // namespace real
