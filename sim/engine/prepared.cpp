#include "sim/engine/prepared.hpp"

#include <map>
#include <utility>

namespace sim {

Prepared prepare(const Plan& plan, const Cluster& cluster, const System& system,
                 const SimulationOptions& options) {
  Prepared prepared;
  std::vector<KernelPricing> pricing;
  for (std::size_t pool = 0; pool < cluster.pools(); ++pool)
    pricing.emplace_back(cluster.of_pool(pool), options, plan.world_size());
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;  // by program and pool
  std::vector<std::vector<KernelCost>> kernels;
  for (const Variant& variant : system.variants) {
    const Program& program = plan.programs[variant.program];
    const Cluster pool = cluster.of_pool(variant.pool);
    const auto [place, is_new] = known.emplace(std::pair{variant.program, variant.pool},
                                               static_cast<std::uint32_t>(prepared.indexes.size()));
    if (is_new) {
      const HostIssue issue = host_issue_of(options, pool.device());
      prepared.indexes.push_back(index_program(program, issue, options.graph_scope));
      kernels.push_back(pricing[variant.pool].costs_of(program));
    }
    prepared.index_of.push_back(place->second);
    prepared.lanes.push_back(lane_costs(program, prepared.indexes[place->second],
                                        kernels[place->second], pool.device(), variant.factor));
  }
  return prepared;
}

}  // namespace sim
