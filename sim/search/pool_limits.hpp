// Limits that hold for every pool of a cluster, for the bounds of a search.
#pragma once

#include <algorithm>

#include "sim/engine/host_issue.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// The result of `figure` for each pool, put together by `pick`, as std::min.
template <class Figure, class Pick>
auto over_pools(const Cluster& cluster, Figure figure, Pick pick) {
  auto all = figure(cluster.of_pool(0));
  for (std::size_t pool = 1; pool < cluster.pools(); ++pool)
    all = pick(all, figure(cluster.of_pool(pool)));
  return all;
}

inline Bytes most_memory(const Cluster& cluster) {
  return over_pools(
      cluster, [](const Cluster& pool) { return pool.device().memory; },
      [](Bytes a, Bytes b) { return std::max(a, b); });
}

inline Bytes least_reserved(const Cluster& cluster) {
  return over_pools(
      cluster, [](const Cluster& pool) { return pool.device().reserved; },
      [](Bytes a, Bytes b) { return std::min(a, b); });
}

inline HostIssue least_host_issue(const Cluster& cluster, const SimulationOptions& options) {
  return over_pools(
      cluster, [&](const Cluster& pool) { return host_issue_of(options, pool.device()); },
      [](const HostIssue& a, const HostIssue& b) {
        return HostIssue{std::min(a.kernel, b.kernel), std::min(a.part, b.part)};
      });
}

}  // namespace sim
