// The parameters of the whole model, put together from what every rank counts as its own: for
// checkpoints and tests.
#pragma once

#include <cstdint>
#include <vector>

#include "real/engine/backend.hpp"
#include "real/engine/parameters.hpp"
#include "real/engine/rank_state.hpp"

namespace real {

// By parameter, row by row.
using GlobalTensors = std::vector<std::vector<float>>;

GlobalTensors zero_tensors(const std::vector<Parameter>& parameters);

// visit(bucket, piece, from, to): elements [from, to) of the piece's rectangle are counted by this
// rank. Over all ranks every element of every parameter is visited once.
using VisitCounted = std::function<void(std::uint32_t, const Piece&, std::int64_t, std::int64_t)>;
void for_each_counted(const BoundProgram& bound, const std::vector<BucketPieces>& buckets,
                      const VisitCounted& visit);

// Writes what this rank counts into `tensors`. Ranks may do so side by side.
void collect(const BoundProgram& bound, const std::vector<Parameter>& parameters, StateKind kind,
             Backend& backend, GlobalTensors& tensors);

}  // namespace real
