// Issues the reduction of a bucket whose gradients are compressed.
#pragma once

#include "sim/plan/parameters/parameter_store.hpp"

namespace sim::lowering {

class GradientCompressor : StagePart {
 public:
  GradientCompressor(LoweringContext& context, ParameterStore& store)
      : StagePart{context}, store_{store} {}

  // Behind what it has waited for: the gradients of the bucket become the average over its ranks,
  // in `result`, which is the buffer of gradients itself or one of this rank's part.
  void reduce(std::uint32_t index, BufferId result, const OpLabel& made);

 private:
  BufferId compress(std::uint32_t index, const OpLabel& made);
  BufferId exchange(std::uint32_t index, std::size_t number, BufferId message, const OpLabel& made);

  ParameterStore& store_;
};

}  // namespace sim::lowering
