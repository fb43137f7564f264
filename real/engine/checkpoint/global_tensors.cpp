#include "real/engine/checkpoint/global_tensors.hpp"

#include <algorithm>

namespace real {

GlobalTensors zero_tensors(const std::vector<Parameter>& parameters) {
  GlobalTensors tensors;
  for (const Parameter& parameter : parameters)
    tensors.emplace_back(static_cast<std::size_t>(parameter.elements()));
  return tensors;
}

void for_each_counted(const BoundProgram& bound, const std::vector<BucketPieces>& buckets,
                      const VisitCounted& visit) {
  for (std::uint32_t b = 0; b < bound.buckets.size(); ++b) {
    const BoundBucket& bucket = bound.buckets[b];
    for (const OwnedRange& range : bucket.counted) {
      const std::int64_t first = bucket.owned_first + range.first;
      buckets[b].for_each_overlap(first, first + range.count,
                                  [&](const Piece& piece, std::int64_t from, std::int64_t to) {
                                    visit(b, piece, from, to);
                                  });
    }
  }
}

void collect(const BoundProgram& bound, const std::vector<Parameter>& parameters, StateKind kind,
             Backend& backend, GlobalTensors& tensors) {
  std::vector<float> values;
  for_each_counted(bound, bucket_pieces(bound, parameters),
                   [&](std::uint32_t b, const Piece& piece, std::int64_t from, std::int64_t to) {
                     values.resize(static_cast<std::size_t>(to - from));
                     read_owned(bound, backend, b, kind,
                                piece.first + from - bound.buckets[b].owned_first, values);
                     std::vector<float>& tensor = tensors[piece.parameter];
                     for_each_run(piece, parameters[piece.parameter], from, to,
                                  [&](std::int64_t at, std::int64_t element, std::int64_t count) {
                                    std::copy_n(values.begin() + (at - from), count,
                                                tensor.begin() + element);
                                  });
                   });
}

}  // namespace real
