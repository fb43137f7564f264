#include "sim/search/costs/shape_cache.hpp"

namespace sim {

GroupShape ShapeCache::shape_of(const std::vector<GpuId>& members) const {
  std::vector<std::uint32_t> key;
  key.reserve(members.size());
  for (const GpuId gpu : members)
    key.push_back(gpu.value);
  {
    const std::lock_guard lock{mutex_};
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
  }
  const GroupShape shape = group_shape(cluster_, members);
  const std::lock_guard lock{mutex_};
  return known_.emplace(std::move(key), shape).first->second;
}

}  // namespace sim
