// The bytes that a scheme sends.
#pragma once

#include "sim/plan/plan.hpp"

namespace sim {

// The bytes that a rank sends in a step to ranks with the same parameters (the groups data, shard
// and replicate), by the algorithm that sends least: an all-reduce of S bytes among n ranks
// 2 S (n - 1) / n, a reduce-scatter, all-gather or all-to-all S (n - 1) / n, others S. Meetings of
// ranks that train apart count as the mean over a round. The figures are those of the rank that
// sends most.
Bytes synchronisation_bytes(const Plan& plan);

}  // namespace sim
