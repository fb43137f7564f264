// Where the exchanges of a block stand, and its shared experts: what is merged goes by it.
#pragma once

#include <cstddef>

#include "sim/plan/sharding/sharding.hpp"

namespace sim::lowering {

// ExpertPlaces are indices of operators in a block. In a layer without experts `dispatch` and
// `combine` are where its MLP begins, and there is no exchange.
struct ExpertPlaces {
  bool exchanges = false;
  std::size_t dispatch = 0, combine = 0;
  // The first of the shared experts, their last linear, and the sum behind; equal: there are none.
  std::size_t shared = 0, shared_down = 0, shared_sum = 0;
  std::size_t end = 0;
  bool has_shared() const { return shared_sum > shared; }
};

ExpertPlaces expert_places(const ShardedBlock& block);

}  // namespace sim::lowering
