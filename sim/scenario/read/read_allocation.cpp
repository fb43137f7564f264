#include "sim/scenario/read/read_allocation.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "sim/topology/node_list.hpp"

namespace sim {
namespace {

// A text, or a list of numbers and names, as a text.
std::string list_text(const Layered& cluster) {
  const ObjectReader* holder = cluster.holder("node_list");
  const ValueReader value = holder->at("node_list");
  if (!value.is_list()) return value.text();
  std::string text;
  for (const ValueReader& item : value.list()) {
    const std::optional<std::string> name = item.peek_text();
    if (!name || name->empty()) {
      item.problem("expected the number or the name of a node");
      continue;
    }
    text += (text.empty() ? "" : ",") + *name;
  }
  if (text.empty()) value.problem("node_list names no node");
  return text;
}

// Whether it can be read, and has as many nodes as the file says. Records what is wrong.
bool is_list_of(const std::string& list, std::optional<int> nodes, const Layered& cluster) {
  if (list.empty()) return false;  // told where it is read
  const bool by_hand = cluster.overridden("nodes") && !cluster.overridden("node_list");
  try {
    const std::size_t names = expand_node_list(list).size();
    if (!nodes || by_hand || names == static_cast<std::size_t>(*nodes)) return true;
    cluster.problem("nodes", fmt::format("nodes is {}, but node_list names {}", *nodes, names));
  } catch (const std::invalid_argument& error) {
    cluster.problem("node_list", error.what());
  }
  return false;
}

}  // namespace

std::optional<NodeAllocation> read_allocation(const Layered& cluster, std::optional<int> nodes) {
  NodeAllocation made;
  // What is set on top wins over the other one in the file.
  const bool list_on_top = cluster.overridden("node_list") && !cluster.overridden("allocation");
  const bool draw_on_top = cluster.overridden("allocation") && !cluster.overridden("node_list");
  const bool drawn = cluster.has("allocation") && !list_on_top;
  const Layered section = cluster.section("allocation");
  made.kind = section.word_or("kind", AllocationKind::packed);
  made.seed = static_cast<std::uint64_t>(section.integer_or("seed", 1, {.min = 0}));
  made.occupancy = section.real_or("occupancy", 0, {.min = 0, .max = 0.999});
  const bool fragmented = made.kind == AllocationKind::fragmented;
  const bool kind_on_top = section.overridden("kind") && !section.overridden("occupancy");
  if (drawn && fragmented != section.has("occupancy") && (fragmented || !kind_on_top))
    section.problem("occupancy", fragmented
                                     ? "a fragmented machine needs occupancy: the share of its "
                                       "nodes that other jobs have"
                                     : "occupancy goes with kind: fragmented");
  if (cluster.has("node_list") && !draw_on_top) {
    if (drawn) cluster.problem("allocation", "allocation draws nodes, and node_list names them");
    made.node_list = list_text(cluster);
    return is_list_of(made.node_list, nodes, cluster) ? std::optional{made} : std::nullopt;
  }
  return drawn ? std::optional{made} : std::nullopt;
}

void allocate(const NodeAllocation& allocation, int nodes, const Layered& section,
              Cluster& machine) {
  try {
    std::vector<int> places =
        allocation.is_drawn()
            ? draw_nodes(allocation, nodes > 0 ? nodes : machine.nodes(), machine.machine_nodes())
            : nodes_of_list(allocation.node_list, machine);
    if (nodes > static_cast<int>(places.size()))
      throw std::invalid_argument(fmt::format(
          "node_list has {} nodes, fewer than the {} of the job", places.size(), nodes));
    if (nodes > 0) places.resize(static_cast<std::size_t>(nodes));
    machine.use_nodes(std::move(places));
  } catch (const std::invalid_argument& error) {
    section.problem(allocation.is_drawn() ? "allocation" : "node_list", error.what());
  }
}

}  // namespace sim
