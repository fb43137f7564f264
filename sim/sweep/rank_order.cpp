#include "sim/sweep/rank_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/topology/allocation.hpp"

namespace sim {
namespace {

using Places = std::vector<int>;

Places places_of(const Cluster& cluster) {
  Places places;
  for (int node = 0; node < cluster.nodes(); ++node)
    places.push_back(cluster.place_of(node));
  return places;
}

// Ascending places are leaf by leaf, since the fabric's order is.
Places fullest_first(const Cluster& cluster, Places by_leaf) {
  std::map<int, int> nodes_of;
  for (const int place : by_leaf)
    ++nodes_of[leaf_of(cluster, place)];
  std::stable_sort(by_leaf.begin(), by_leaf.end(), [&](int a, int b) {
    const int leaf_a = leaf_of(cluster, a), leaf_b = leaf_of(cluster, b);
    return leaf_a != leaf_b && nodes_of[leaf_a] > nodes_of[leaf_b];
  });
  return by_leaf;
}

// Node s * stride + j of the job gets the place behind that of node (s - 1) * stride + j.
Places dealt(const Places& by_leaf, int stride) {
  const std::size_t all = by_leaf.size();
  const auto step = static_cast<std::size_t>(stride);
  const std::size_t turns = all / step;
  Places order(all);
  for (std::size_t i = 0; i < all; ++i)
    order[i] = by_leaf[i % step * turns + i / step];
  return order;
}

}  // namespace

std::vector<NamedOrder> orders_to_try(const Cluster& cluster, std::span<const int> strides) {
  std::vector<NamedOrder> orders;
  const auto add = [&](std::string name, Places places) {
    const bool known =
        std::ranges::any_of(orders, [&](const NamedOrder& one) { return one.places == places; });
    if (!known) orders.push_back({std::move(name), std::move(places)});
  };
  Places by_leaf = places_of(cluster);
  add("as given", by_leaf);
  std::sort(by_leaf.begin(), by_leaf.end());
  add("by leaf", by_leaf);
  add("fullest leaves first", fullest_first(cluster, by_leaf));
  add("reversed", {by_leaf.rbegin(), by_leaf.rend()});
  for (const int stride : strides)
    if (stride > 1 && stride < cluster.nodes() && cluster.nodes() % stride == 0)
      add(fmt::format("nodes {} apart at one leaf", stride), dealt(by_leaf, stride));
  return orders;
}

std::string rank_file(std::span<const std::string> nodes, int per_node, int ranks,
                      Launcher launcher) {
  std::string text;
  for (const std::string& node : nodes) {
    const int here = std::min(per_node, ranks);
    if (launcher == Launcher::mpirun && here > 0) text += fmt::format("{} slots={}\n", node, here);
    for (int rank = 0; launcher == Launcher::srun && rank < here; ++rank)
      text += node + '\n';
    ranks -= here;
  }
  return text;
}

}  // namespace sim
