// The communicators of one lane: the ranks with tensor, data and context coordinate 0, one per
// stage. A lower bound may follow any one path through a step, and this is the one it follows.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "sim/collective/collective_cost.hpp"
#include "sim/plan/plan.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// The group of the lane's rank of `stage` in this role, in communicator order (as plan/grid.cpp
// makes it); fewer than two: there is none.
std::vector<GpuId> lane_group(const Layout& layout, GroupRole role, int stage);

// Shapes by members: worked out once. Thread-safe.
class ShapeCache {
 public:
  explicit ShapeCache(const Cluster& cluster) : cluster_{cluster} {}
  GroupShape shape_of(const std::vector<GpuId>& members) const;

 private:
  const Cluster& cluster_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<std::uint32_t>, GroupShape> known_;
};

}  // namespace sim
