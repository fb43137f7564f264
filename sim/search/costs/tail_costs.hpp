// Lower bounds on the data-parallel communication and on the end of a step for one stage: read off
// its own program, lowered for a few micro-batches.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "sim/engine/cost_table.hpp"
#include "sim/plan/sharding/sharding.hpp"
#include "sim/search/costs/overlaps.hpp"

namespace sim {

// The time of a stream: in all, and per micro-batch. ps.
struct StreamTime {
  std::int64_t fixed = 0, each = 0;
  std::int64_t of(std::int64_t micro_batches) const { return fixed + each * micro_batches; }
};

struct TailCosts {              // ps
  std::int64_t gathers = 0;     // of the first chunk's weights, before its first pass can end
  std::int64_t reductions = 0;  // that begin after the last backward pass has begun
  std::int64_t data_fixed = 0, data_each = 0;  // of the data stream: in all, and per micro-batch
  // held_fixed, held_each: the part of it while least_data_sms SMs or more are held.
  std::int64_t held_fixed = 0, held_each = 0;
  std::array<StreamTime, 3> host{};  // of the streams of the host
  std::int64_t before_sync = 0;      // from the last pass to the sum of gradient norms
  std::int64_t after_sync = 0;       // from there to the end
};

struct TailPricing {
  const KernelPricing& kernels;
  double slowness = 1;
  std::function<LeastCollective(const Collective&)> collective;
};

// `sharded` has the fewest micro-batches, at least two where gradients are added up over them (or
// all), `more` some more or equally many.
TailCosts tail_costs(const ShardedModel& sharded, const ShardedModel& more, int stage,
                     const TailPricing& pricing);

}  // namespace sim
