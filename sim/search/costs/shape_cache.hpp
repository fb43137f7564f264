// Shapes of groups of GPUs, worked out once.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "sim/collective/collective_cost.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// Thread-safe.
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
