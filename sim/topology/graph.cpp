#include "sim/topology/graph.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/topology/cluster_data.hpp"

namespace sim {
namespace {

// Where parts of a node stand between the GPUs and the fabric; those of the fabric are above.
constexpr int level_of(PartKind kind) {
  switch (kind) {
    case PartKind::gpu:
      return 0;
    case PartKind::nvswitch:
      return 1;
    case PartKind::pcie_switch:
      return 2;
    case PartKind::cpu:
      return 3;
    case PartKind::nic:
      return 4;
    case PartKind::uplink:
      return 5;
    case PartKind::network:
      return 6;
  }
  return 0;
}
constexpr int first_fabric_level = 7;

class Builder {
 public:
  explicit Builder(const Cluster& cluster) : cluster_{cluster}, data_{cluster.data()} {}

  TopologyGraph build() {
    add_parts();
    add_node_links();
    add_fabric_links();
    // By the higher end, then the lower one; upwards before downwards.
    const auto order = [&](const LinkTier& tier) {
      const int from = graph_.parts[tier.from].level;
      const int to = graph_.parts[tier.to].level;
      return std::tuple{-std::max(from, to), -std::min(from, to), from > to};
    };
    std::stable_sort(graph_.links.begin(), graph_.links.end(),
                     [&](const LinkTier& a, const LinkTier& b) { return order(a) < order(b); });
    return std::move(graph_);
  }

 private:
  std::uint32_t add_part(const std::string& name, int level, std::uint32_t count) {
    const auto known = std::find_if(graph_.parts.begin(), graph_.parts.end(),
                                    [&](const PartTier& part) { return part.level == level; });
    if (known != graph_.parts.end()) {
      known->count += count;
      return static_cast<std::uint32_t>(known - graph_.parts.begin());
    }
    graph_.parts.push_back({name, count, level});
    return static_cast<std::uint32_t>(graph_.parts.size() - 1);
  }

  void add_parts() {
    switch_tier_.resize(data_.fabric.switches);
    for (std::size_t t = 0; t < data_.fabric.tiers.size(); ++t) {
      const Tier& tier = data_.fabric.tiers[t];
      const std::uint32_t part =
          add_part(tier.word, first_fabric_level + static_cast<int>(t), tier.count);
      for (std::uint32_t s = tier.first; s < tier.first + tier.count; ++s)
        switch_tier_[s] = part;
    }
    // The port of a node to the network is a cable to a switch of the first tier.
    for (const Cluster::Data::Pool& pool : data_.pools) {
      std::vector<std::uint32_t>& tiers = part_tier_.emplace_back();
      for (const Part& part : pool.node.parts)
        tiers.push_back(part.kind == PartKind::network && !data_.fabric.tiers.empty()
                            ? 0
                            : add_part(std::string{word(part.kind)}, level_of(part.kind),
                                       static_cast<std::uint32_t>(pool.nodes)));
    }
  }

  LinkTier& tier_of(std::uint32_t from, std::uint32_t to, LinkKind kind) {
    const auto [place, is_new] = known_.emplace(std::tuple{from, to, kind}, graph_.links.size());
    if (is_new) graph_.links.push_back({from, to, kind, {}, 1, {}, {}});
    return graph_.links[place->second];
  }

  void add(LinkTier& tier, LinkId id, int bundled) {
    const Bandwidth capacity = cluster_.link(id).capacity;
    tier.least = tier.links.empty() ? capacity : std::min(tier.least, capacity);
    tier.most = std::max(tier.most, capacity);
    tier.bundled = std::max(tier.bundled, bundled);
    tier.links.push_back(id);
  }

  void add_node_links() {
    const auto per_node = data_.links_per_node();
    for (std::uint32_t node = 0; node < static_cast<std::uint32_t>(data_.nodes); ++node) {
      const std::size_t pool = data_.pool_index(static_cast<int>(node));
      const std::vector<PartLink>& links = data_.pools[pool].node.links;
      const std::vector<std::uint32_t>& tiers = part_tier_[pool];
      for (std::uint32_t k = 0; k < links.size(); ++k)
        add(tier_of(tiers[links[k].from], tiers[links[k].to], links[k].link.kind),
            LinkId{node * per_node + k}, links[k].bundled);
    }
  }

  void add_fabric_links() {
    for (std::uint32_t f = 0; f < data_.fabric.links.size(); ++f) {
      const FabricLink& link = data_.fabric.links[f];
      add(tier_of(switch_tier_[link.from], switch_tier_[link.to], link.link.kind),
          LinkId{data_.fabric_base() + f}, link.bundled);
    }
  }

  const Cluster& cluster_;
  const Cluster::Data& data_;
  TopologyGraph graph_;
  std::vector<std::vector<std::uint32_t>> part_tier_;  // of each part of a node, by pool
  std::vector<std::uint32_t> switch_tier_;             // of each switch
  std::map<std::tuple<std::uint32_t, std::uint32_t, LinkKind>, std::size_t> known_;
};

}  // namespace

TopologyGraph topology_graph(const Cluster& cluster) {
  return Builder{cluster}.build();
}

}  // namespace sim
