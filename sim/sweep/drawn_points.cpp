#include "sim/sweep/drawn_points.hpp"

#include <fmt/format.h>

#include "sim/base/check.hpp"
#include "sim/config/change.hpp"

namespace sim {

std::vector<std::string> without_allocation(const std::vector<std::string>& overrides, int nodes) {
  std::vector<std::string> kept;
  for (const std::string& one : overrides)
    if (!one.starts_with("cluster.allocation") && !one.starts_with("cluster.node_list"))
      kept.push_back(one);
  set_override(kept, "cluster.nodes", fmt::format("{}", nodes));
  return kept;
}

std::vector<std::string> drawn_point(const std::vector<std::string>& overrides, int nodes,
                                     const NodeAllocation& allocation) {
  SIM_CHECK(allocation.is_drawn());
  std::vector<std::string> point = without_allocation(overrides, nodes);
  set_override(point, "cluster.allocation.kind", std::string{word(allocation.kind)});
  if (allocation.kind == AllocationKind::fragmented)
    set_override(point, "cluster.allocation.occupancy", fmt::format("{}", allocation.occupancy));
  set_override(point, "cluster.allocation.seed", fmt::format("{}", allocation.seed));
  return point;
}

}  // namespace sim
