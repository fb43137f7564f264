#include "sim/topology/route_check.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace sim {

std::uint64_t check_routes(const Cluster& cluster) {
  const auto per_node = static_cast<std::uint32_t>(cluster.gpus_per_node());
  std::uint64_t routes = 0;
  const auto walk = [&](std::uint32_t from, std::uint32_t to) {
    const Route route = cluster.route(GpuId{from}, GpuId{to});
    if (from != to && (route.hops.empty() || route.bandwidth.in_bytes_per_second() <= 0))
      throw std::runtime_error(fmt::format("gpu {} does not reach gpu {}", from, to));
    ++routes;
  };
  for (std::uint32_t a = 0; a < per_node; ++a)
    for (std::uint32_t b = 0; b < per_node; ++b)
      walk(a, b);
  for (std::uint32_t node = 1; node < static_cast<std::uint32_t>(cluster.nodes()); ++node)
    for (std::uint32_t a = 0; a < per_node; ++a) {
      walk(a, node * per_node + a);
      walk(node * per_node + a, a);
    }
  return routes;
}

}  // namespace sim
