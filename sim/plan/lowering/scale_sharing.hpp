// Scales of 8-bit tensors, whose maxima the ranks of a stage share.
#pragma once

#include "sim/plan/lowering/lowering_context.hpp"

namespace sim::lowering {

class ScaleSharing : StagePart {
 public:
  explicit ScaleSharing(LoweringContext& context) : StagePart{context} { count_scaled_tensors(); }

  // Whether the layers of the chunk end with its block i, in a pass of this direction.
  bool ends_layers(const Chunk& chunk, std::uint32_t i, int direction) const;
  void share_maxima(const Chunk& chunk, int microbatch, Pass pass);

 private:
  void count_scaled_tensors();

  std::int64_t scaled_products_ = 0;  // in 8 bits, whose scales this rank shares
};

}  // namespace sim::lowering
