// The part of the optimizer that runs on the host: gradients there, the update, new weights back.
#pragma once

#include <vector>

#include "sim/plan/lowering/parameter_store.hpp"

namespace sim::lowering {

class HostOptimizer : StagePart {
 public:
  HostOptimizer(LoweringContext& context, ParameterStore& store)
      : StagePart{context}, store_{store} {}

  // Behind the gradient norm; kernels behind it wait for the new weights.
  void update();

 private:
  OpId gradients_to_host(std::uint32_t index);
  OpId update_on_host(std::uint32_t index, OpId behind);
  void weights_from_host(std::uint32_t index, OpId behind);
  OpId waits_for(const std::vector<OpId>& ready, std::uint32_t index) const;
  std::uint32_t copy(std::int64_t bytes);
  std::uint32_t host_update(std::int64_t elements);

  ParameterStore& store_;
};

}  // namespace sim::lowering
