// How large the buckets are in which data-parallel ranks reduce their gradients.
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"
#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim {

// Larger than all gradients of any model.
inline constexpr Bytes one_bucket{std::int64_t{1} << 40};

// Bytes of gradients behind which a bucket closes: of the first to fire in a chunk, of the others.
struct BucketSizes {
  Bytes first;
  Bytes others;
  bool operator==(const BucketSizes&) const = default;
};

// Usual bucket sizes of a framework.
BucketSizes usual_bucket_sizes(const Layout& layout, BucketRule rule);

// Bucket sizes of the layout; a size that it leaves open follows from the framework.
BucketSizes bucket_sizes(const Layout& layout, const Execution& runs);

struct ChunkOfStage {
  int stage = 0;
  int chunk = 0;
  std::int64_t parameters = 0;  // of all chunks of the rank
};

// Bucket sizes of one model chunk: Megatron-LM has buckets in the first chunk of the first stage
// alone. With Layout::buckets their size follows from the parameters (training/training.py,
// resolve_ddp_bucket_size, at d98e8a64).
BucketSizes bucket_sizes(const Layout& layout, const Execution& runs, ChunkOfStage where);

}  // namespace sim
