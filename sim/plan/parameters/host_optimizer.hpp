// The part of the optimizer that runs on the host: gradients there, the update, new weights back.
#pragma once

#include <vector>

#include "sim/plan/lowering/host_transfers.hpp"

namespace sim::lowering {

class HostOptimizer : StagePart {
 public:
  HostOptimizer(LoweringContext& context, ParameterStore& store)
      : StagePart{context}, store_{store} {}

  // Before the first pass of a step: with Layout::offload_delay the update with the gradients of
  // the step before, beside all that follows.
  void begin_step();
  // Behind the gradient norm; kernels behind it wait for the new weights.
  void update();

 private:
  void update_in_place();
  void take_turns();
  OpId gradients_to_host(std::uint32_t index);
  OpId update_on_host(std::uint32_t index, OpId behind);
  void weights_wait_for(Stream copies);
  void weights_from_host(std::uint32_t index, OpId behind, Stream stream = Stream::host_copy);
  OpId waits_for(const std::vector<OpId>& ready, std::uint32_t index) const;
  std::uint32_t host_update(std::int64_t elements);

  ParameterStore& store_;
  std::vector<OpId> delayed_;  // updates of begin_step(), by bucket
};

}  // namespace sim::lowering
