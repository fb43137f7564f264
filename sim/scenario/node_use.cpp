#include "sim/scenario/node_use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "sim/base/check.hpp"
#include "sim/base/rounding.hpp"

namespace sim {

NodeRoom room_of(const Cluster& cluster) {
  return {.gpus = cluster.node_gpus(), .trays = cluster.trays(), .nodes = cluster.nodes()};
}

void use_nodes(const NodeUse& use, const Layout* layout, bool has_data_parallel,
               const Layered& section, Cluster& cluster) {
  if (use.gpus_per_node > cluster.node_gpus()) {
    section.problem(
        "gpus_per_node",
        fmt::format("gpus_per_node is {}, but a node of {} has {}; allowed: 1 to {}",
                    use.gpus_per_node, cluster.name(), cluster.node_gpus(), cluster.node_gpus()));
    return;
  }
  if (use.gpus_per_node > 0) return cluster.use_gpus_per_node(use.gpus_per_node);
  if (!layout) return;
  Layout placed = *layout;
  const std::int64_t inner =
      std::int64_t{placed.tensor_parallel} * placed.context_parallel * placed.pipeline_parallel;
  const std::int64_t world = has_data_parallel ? inner * placed.data_parallel : use.gpus;
  if (!has_data_parallel)
    placed.data_parallel =
        static_cast<int>(std::max<std::int64_t>(1, (world > 0 ? world : cluster.gpus()) / inner));
  cluster.use_gpus_per_node(whole_gpus_per_node(
      placed, room_of(cluster),
      static_cast<int>(std::min<std::int64_t>(world, std::numeric_limits<int>::max()))));
}

int nodes_for(const NodeRoom& room, int gpus) {
  SIM_CHECK(room.gpus > 0);
  const auto has = static_cast<unsigned>(room.gpus);
  const int filled = static_cast<int>(room.trays > 1 ? std::bit_floor(has) : has);
  return gpus <= room.gpus ? 1 : divide_up(gpus, filled);
}

std::string nodes_text(const Cluster& cluster) {
  if (cluster.gpus_per_node() == cluster.node_gpus())
    return fmt::format("{} nodes of {}", cluster.nodes(), cluster.node_gpus());
  return fmt::format("{} nodes with {} of {} GPUs in use", cluster.nodes(), cluster.gpus_per_node(),
                     cluster.node_gpus());
}

std::string what_to_set(const Cluster& cluster) {
  const bool whole = cluster.gpus_per_node() == cluster.node_gpus();
  return whole ? "set cluster.nodes or cluster.gpus"
               : "set cluster.nodes, cluster.gpus or cluster.gpus_per_node";
}

std::string whole_replicas_hint(const Cluster& cluster, std::int64_t ranks) {
  const int tray = cluster.node_gpus() / cluster.trays();
  for (int used = cluster.node_gpus(); cluster.trays() > 1 && used > 0; used -= tray)
    if (std::int64_t{used} * cluster.nodes() % ranks == 0)
      return fmt::format("; cluster.gpus_per_node: {} would do", used);
  return {};
}

}  // namespace sim
