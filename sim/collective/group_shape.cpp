#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "sim/base/check.hpp"
#include "sim/collective/algorithms.hpp"
#include "sim/collective/group_layout.hpp"

namespace sim {
namespace {

std::int64_t mean(std::int64_t sum, int count) {
  return count == 0 ? 0 : sum / count;
}

LinkId first_nic(const Cluster& cluster, const Route& route) {
  for (const Hop& hop : route.hops)
    if (cluster.link(hop.link).kind == LinkKind::nic) return hop.link;
  return {};
}

// Members connected pairwise by direct NVLinks in part (the 8-GPU V100 box, bridged pairs of four):
// peers that are one link away, per member.
struct MeshPeers {
  std::vector<std::vector<int>> of;
  bool connected = false;
};

bool direct(const Route& route) {
  return route.kind <= PathKind::nvlink && route.hops.size() == 1;
}

MeshPeers mesh_peers(const Cluster& cluster, const GroupLayout& layout, int node) {
  const int size = layout.members_of(node);
  MeshPeers peers;
  peers.of.resize(static_cast<std::size_t>(size));
  for (int a = 0; a < size; ++a)
    for (int b = 0; b < size; ++b)
      if (a != b && direct(cluster.route(layout.gpu(node, a), layout.gpu(node, b))))
        peers.of[static_cast<std::size_t>(a)].push_back(b);
  std::vector<int> reached{0};
  std::vector<char> seen(static_cast<std::size_t>(size), 0);
  seen[0] = 1;
  for (std::size_t i = 0; i < reached.size(); ++i)
    for (const int peer : peers.of[static_cast<std::size_t>(reached[i])])
      if (!seen[static_cast<std::size_t>(peer)]) {
        seen[static_cast<std::size_t>(peer)] = 1;
        reached.push_back(peer);
      }
  peers.connected = static_cast<int>(reached.size()) == size;
  return peers;
}

// On a mesh NCCL lays several rings through different links until each member's links are used up:
// a member's traffic leaves over all its direct links, by their capacity. (On the 8-GPU V100 box
// these are 6 rings, each one link wide: NVIDIA, "NCCL 2.0", GTC 2017, session S7155.)
void add_mesh(const Cluster& cluster, const GroupLayout& layout, int node, const MeshPeers& peers,
              double weight, IntraTotals& totals, LinkLoads& loads) {
  std::vector<Route> routes;
  for (int a = 0; a < layout.members_of(node); ++a) {
    routes.clear();
    double sum = 0;
    for (const int b : peers.of[static_cast<std::size_t>(a)]) {
      routes.push_back(cluster.route(layout.gpu(node, a), layout.gpu(node, b)));
      sum += routes.back().bandwidth.in_bytes_per_second();
    }
    for (const Route& route : routes) {
      loads.add(route, weight * route.bandwidth.in_bytes_per_second() / sum);
      totals.latency_ps += route.latency.count();
      ++totals.routes;
    }
  }
}

}  // namespace

GroupLayout::GroupLayout(const Cluster& cluster, std::span<const GpuId> members)
    : order_(members.begin(), members.end()) {
  SIM_CHECK(!members.empty());
  // Nodes by first appearance; a node met again after another one means a regrouping.
  std::vector<int> nodes;
  for (const GpuId member : members) {
    const int node = cluster.node_of(member);
    if (nodes.empty() || nodes.back() != node) nodes.push_back(node);
  }
  std::vector<int> sorted = nodes;
  std::sort(sorted.begin(), sorted.end());
  contiguous_ = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  if (!contiguous_) {
    sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
    std::vector<std::size_t> appearance(sorted.size(), nodes.size());
    const auto slot = [&](int node) {
      return static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), node) -
                                      sorted.begin());
    };
    for (std::size_t i = nodes.size(); i-- > 0;)
      appearance[slot(nodes[i])] = i;
    std::stable_sort(order_.begin(), order_.end(), [&](GpuId a, GpuId b) {
      return appearance[slot(cluster.node_of(a))] < appearance[slot(cluster.node_of(b))];
    });
  }
  for (std::uint32_t i = 0; i < order_.size(); ++i)
    if (i == 0 || cluster.node_of(order_[i]) != cluster.node_of(order_[i - 1])) first_.push_back(i);
  first_.push_back(static_cast<std::uint32_t>(order_.size()));
  fewest_ = ranks();
  for (int node = 0; node < this->nodes(); ++node) {
    most_ = std::max(most_, members_of(node));
    fewest_ = std::min(fewest_, members_of(node));
  }
  uniform_ = most_ * this->nodes() == ranks();
}

LinkLoads::LinkLoads(const Cluster& cluster, bool resends)
    : cluster_{&cluster},
      resends_{resends && transport_of(cluster).limits()},
      network_header_{1 / cluster.network().network_efficiency} {}

double LinkLoads::wire_bytes(const Route& route) const {
  if (!resends_) return network_header_;
  return network_header_ * path_quality(*cluster_, route).sends;
}

std::uint64_t LinkLoads::load_of(const Hop& hop, double weight, double wire) const {
  const LinkKind kind = cluster_->link(hop.link).kind;
  const bool network = kind == LinkKind::nic || kind == LinkKind::fabric;
  return static_cast<std::uint64_t>(weight * 65536 * hop.share * (network ? wire : 1));
}

// Rounded down, so that no link is asked for more than a rate that respects its exact load; 2^-8 of
// a share makes up for what the rounding of each term may have lost.
Hop LinkLoads::hop_of(std::uint32_t link, std::uint64_t load) {
  const std::uint64_t share = std::clamp<std::uint64_t>((load + 256) >> 16, 1, UINT32_MAX);
  return {LinkId{link}, static_cast<std::uint32_t>(share)};
}

void LinkLoads::add(const Route& route, double weight) {
  const double wire = wire_bytes(route);
  for (const Hop& hop : route.hops)
    loads_.push_back({hop.link.value, load_of(hop, weight, wire)});
}

std::vector<Hop> LinkLoads::of_route(const Route& route) const {
  std::vector<Hop> hops;
  hops.reserve(route.hops.size());
  const double wire = wire_bytes(route);
  for (const Hop& hop : route.hops)
    hops.push_back(hop_of(hop.link.value, load_of(hop, 1, wire)));
  return hops;
}

// Sorted by 11 bits of the link's number at a time: runs of thousands of groups sort some thousand
// loads each, and comparing them would take most of their set-up.
void LinkLoads::sort_by_link(std::uint32_t last) {
  constexpr unsigned bits = 11;
  std::vector<Load> sorted(loads_.size());
  for (unsigned shift = 0; shift < 32 && last >> shift != 0; shift += bits) {
    std::array<std::uint32_t, (1U << bits) + 1> first{};
    const auto digit = [&](const Load& load) { return load.link >> shift & ((1U << bits) - 1); };
    for (const Load& load : loads_)
      ++first[digit(load) + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    for (const Load& load : loads_)
      sorted[first[digit(load)]++] = load;
    loads_.swap(sorted);
  }
}

// A group that loads a good part of all links (the whole job) sums them in a table.
std::vector<Hop> LinkLoads::hops_by_table(std::uint32_t last) const {
  std::vector<std::uint64_t> sums(std::size_t{last} + 1, 0);
  for (const Load& load : loads_)
    sums[load.link] += load.weight;
  std::vector<Hop> result;
  for (std::uint32_t link = 0; link <= last; ++link)
    if (sums[link] > 0) result.push_back(hop_of(link, sums[link]));
  return result;
}

std::vector<Hop> LinkLoads::hops() {
  std::uint32_t last = 0;
  for (const Load& load : loads_)
    last = std::max(last, load.link);
  if (loads_.size() > last / 8) return hops_by_table(last);
  sort_by_link(last);
  std::vector<Hop> result;
  result.reserve(loads_.size());
  for (std::size_t i = 0; i < loads_.size();) {
    std::uint64_t sum = 0;
    const std::uint32_t link = loads_[i].link;
    for (; i < loads_.size() && loads_[i].link == link; ++i)
      sum += loads_[i].weight;
    result.push_back(hop_of(link, sum));
  }
  return result;
}

std::vector<Hop> merged(std::span<const Hop> a, std::span<const Hop> b) {
  std::vector<Hop> result;
  result.reserve(a.size() + b.size());
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (j == b.size() || (i < a.size() && a[i].link < b[j].link)) {
      result.push_back(a[i++]);
    } else if (i == a.size() || b[j].link < a[i].link) {
      result.push_back(b[j++]);
    } else {
      result.push_back({a[i].link, a[i].share + b[j].share});
      ++i;
      ++j;
    }
  }
  return result;
}

Bandwidth rate_limit(const Cluster& cluster, std::span<const Hop> hops) {
  if (hops.empty()) return {};
  double limit = std::numeric_limits<double>::infinity();
  for (const Hop& hop : hops)
    limit =
        std::min(limit, cluster.link(hop.link).capacity.in_bytes_per_second() * 65536 / hop.share);
  return Bandwidth::bytes_per_second(limit);
}

IntraTotals add_ring_within_nodes(const Cluster& cluster, const GroupLayout& layout, double weight,
                                  RingDirection direction, LinkLoads& loads) {
  IntraTotals totals;
  for (int node = 0; node < layout.nodes(); ++node) {
    const int size = layout.members_of(node);
    if (size < 2) continue;
    const Route first = cluster.route(layout.gpu(node, 0), layout.gpu(node, 1));
    if (size > 2 && direct(first)) {
      const MeshPeers peers = mesh_peers(cluster, layout, node);
      if (peers.connected) {
        add_mesh(cluster, layout, node, peers, weight, totals, loads);
        continue;
      }
    }
    const bool down = direction == RingDirection::down ||
                      (direction == RingDirection::alternate && node % 2 == 1);
    // A node of a group with unequal nodes is walked once, without closing the ring in it.
    const int edges = layout.nodes() > 1 && !layout.uniform() ? size - 1 : size;
    for (int i = 0; i < edges; ++i) {
      const int next = (i + 1) % size;
      const Route route = down ? cluster.route(layout.gpu(node, next), layout.gpu(node, i))
                               : cluster.route(layout.gpu(node, i), layout.gpu(node, next));
      loads.add(route, weight);
      totals.worst = std::max(totals.worst, route.kind);
      totals.latency_ps += route.latency.count();
      ++totals.routes;
    }
  }
  return totals;
}

RingLoads ring_loads(const Cluster& cluster, const GroupLayout& layout, bool resends) {
  RingLoads ring{LinkLoads{cluster, resends}, LinkLoads{cluster, resends}};
  const int nodes = layout.nodes();
  const int rails = layout.rails();
  // All but one of the `rails` channels pass a given pair of neighbours: the one that enters or
  // leaves the node there does not.
  ring.intra_weight = nodes == 1 || !layout.uniform() ? 1 : (rails - 1.0) / rails;
  ring.within.reserve(static_cast<std::size_t>(layout.ranks()) * 2);
  if (layout.ranks_per_node() > 1)
    ring.intra = add_ring_within_nodes(cluster, layout, ring.intra_weight, RingDirection::alternate,
                                       ring.within);
  if (nodes == 1) return ring;
  std::vector<LinkId> first_nics;
  ring.across.reserve(static_cast<std::size_t>(nodes * rails) * 8);
  for (int node = 0; node < nodes; ++node) {
    const int next = (node + 1) % nodes;
    for (int rail = 0; rail < rails; ++rail) {
      int from = rail;
      int to = rail;
      if (rails == 1) {
        from = layout.members_of(node) - 1;
        to = 0;
      } else if (next == 0 && nodes % 2 == 1) {
        from = (rail + rails - 1) % rails;
      }
      const Route route = cluster.route(layout.gpu(node, from), layout.gpu(next, to));
      ring.across.add(route, 1.0 / rails);
      if (node == 0) first_nics.push_back(first_nic(cluster, route));
      ring.inter_latency_ps += route.latency.count();
      ++ring.inter_routes;
    }
  }
  std::sort(first_nics.begin(), first_nics.end());
  ring.nics =
      static_cast<int>(std::unique(first_nics.begin(), first_nics.end()) - first_nics.begin());
  return ring;
}

GroupShape group_shape(const Cluster& machine, std::span<const GpuId> members) {
  const Cluster cluster = machine.of_group(members);
  const GroupLayout layout{cluster, members};
  RingLoads ring = ring_loads(cluster, layout, false);
  GroupShape shape{.ranks = layout.ranks(),
                   .nodes = layout.nodes(),
                   .ranks_per_node = layout.ranks_per_node(),
                   .uniform = layout.uniform(),
                   .contiguous = layout.contiguous(),
                   .intra = ring.intra.worst,
                   .pool = cluster.pool()};
  const std::vector<Hop> within = ring.within.hops();
  std::vector<Hop> across = ring.across.hops();
  shape.ring_bandwidth = rate_limit(cluster, merged(within, across));
  shape.intra_bandwidth = rate_limit(cluster, within) * ring.intra_weight;
  shape.intra_latency = Duration{mean(ring.intra.latency_ps, ring.intra.routes)};
  if (shape.nodes == 1) return shape;
  shape.inter_latency = Duration{mean(ring.inter_latency_ps, ring.inter_routes)};
  // The rate of the group's NICs, whatever the fabric behind them carries.
  std::erase_if(across,
                [&](const Hop& hop) { return cluster.link(hop.link).kind == LinkKind::fabric; });
  shape.inter_bandwidth = rate_limit(cluster, across);
  shape.nics_per_node = ring.nics;
  return shape;
}

}  // namespace sim
