#include "sim/topology/node_template.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/topology/paths.hpp"

namespace sim {
namespace {

// Weights order paths as NCCL's path classes do (src/graph/topo.h: NVL, NVB, PIX, PXB, PHB, SYS):
// fewer hops first, wider NVLink bundles before narrower ones, a socket crossing last.
constexpr std::uint32_t hop_weight = 100'000;
constexpr std::uint32_t socket_weight = 10'000'000;
constexpr std::uint32_t narrow_weight = 5'040;  // divisible by bundles of 1 to 10 links

std::uint32_t weight_of(const PartLink& link) {
  if (link.link.kind == LinkKind::socket) return socket_weight;
  if (!joins_gpus(link.link.kind)) return hop_weight;
  return hop_weight + narrow_weight / static_cast<std::uint32_t>(std::max(1, link.bundled));
}

bool is_nvlink(const PartLink& link) {
  return joins_gpus(link.link.kind);
}
bool is_host(const PartLink& link) {
  return link.link.kind == LinkKind::pcie || link.link.kind == LinkKind::socket;
}

class RouteSearch {
 public:
  RouteSearch(const NodeTemplate& node, const std::vector<bool>& dead)
      : node_{node}, dead_{dead}, graph_{make_graph(node)} {}

  template <class Allowed>
  std::vector<bool> mask(Allowed allowed) const {
    std::vector<bool> usable(node_.links.size());
    for (std::size_t i = 0; i < usable.size(); ++i)
      usable[i] = (dead_.empty() || !dead_[i]) && allowed(node_.links[i]);
    return usable;
  }
  PathGraph::Distances distances(std::uint32_t target, const std::vector<bool>& usable) const {
    return graph_.distances_to(target, usable);
  }
  std::vector<Hop> path(std::uint32_t from, std::uint32_t to, const PathGraph::Distances& distance,
                        const std::vector<bool>& usable) const {
    std::vector<Hop> hops;
    for (const ArcShare& arc : graph_.spread(from, to, distance, usable))
      hops.push_back({LinkId{arc.arc}, arc.share});
    return hops;
  }

 private:
  static PathGraph make_graph(const NodeTemplate& node) {
    std::vector<Arc> arcs;
    for (const PartLink& link : node.links)
      arcs.push_back({link.from, link.to, weight_of(link)});
    return {static_cast<std::uint32_t>(node.parts.size()), arcs};
  }

  const NodeTemplate& node_;
  const std::vector<bool>& dead_;
  PathGraph graph_;
};

// The ways to one GPU: straight NVLink, NVLink through one other GPU (NCCL's NVB), PCIe.
struct WaysToGpu {
  std::vector<bool> direct, relayed, host;  // usable links
  PathGraph::Distances by_direct, by_relayed, by_host;
};

WaysToGpu ways_to_gpu(const NodeTemplate& node, const RouteSearch& search, std::uint32_t target) {
  WaysToGpu ways;
  ways.direct = search.mask([&](const PartLink& link) {
    const bool into_other = node.parts[link.to].kind == PartKind::gpu && link.to != target;
    return is_nvlink(link) && !into_other;
  });
  ways.relayed = search.mask(is_nvlink);
  ways.host = search.mask(is_host);
  ways.by_direct = search.distances(target, ways.direct);
  ways.by_host = search.distances(target, ways.host);
  return ways;
}

PathKind direct_kind(const NodeTemplate& node, const std::vector<Hop>& hops) {
  const bool xgmi =
      !hops.empty() && node.links[hops.front().link.value].link.kind == LinkKind::xgmi;
  return xgmi ? PathKind::xgmi : PathKind::nvlink;
}

std::pair<std::vector<Hop>, PathKind> gpu_path(const NodeTemplate& node, const RouteSearch& search,
                                               std::uint32_t from, std::uint32_t target,
                                               WaysToGpu& ways) {
  if (ways.by_direct[from] != PathGraph::unreachable) {
    std::vector<Hop> hops = search.path(from, target, ways.by_direct, ways.direct);
    const PathKind kind = direct_kind(node, hops);
    return {std::move(hops), kind};
  }
  if (ways.by_relayed.empty()) ways.by_relayed = search.distances(target, ways.relayed);
  // At most one GPU between (NCCL's NVB): two hops.
  if (ways.by_relayed[from] < 3 * hop_weight) {
    std::vector<Hop> hops = search.path(from, target, ways.by_relayed, ways.relayed);
    const PathKind kind = direct_kind(node, hops);
    return {std::move(hops), kind};
  }
  if (ways.by_host[from] == PathGraph::unreachable) return {{}, PathKind::same_device};
  std::vector<Hop> hops = search.path(from, target, ways.by_host, ways.host);
  const bool crosses = std::any_of(hops.begin(), hops.end(), [&](const Hop& hop) {
    return node.links[hop.link.value].link.kind == LinkKind::socket;
  });
  return {std::move(hops), crosses ? PathKind::socket : PathKind::pcie};
}

// The port links of each NIC: out to the network and in from it; empty where one is dead.
struct NicPort {
  std::vector<Hop> out, in;
};

NicPort nic_port(const NodeTemplate& node, const RouteSearch& search, std::uint32_t nic) {
  const auto network = static_cast<std::uint32_t>(node.parts.size() - 1);
  SIM_CHECK(node.parts[network].kind == PartKind::network);
  const std::vector<bool> usable =
      search.mask([](const PartLink& link) { return link.link.kind == LinkKind::nic; });
  const PathGraph::Distances up = search.distances(network, usable);
  const PathGraph::Distances down = search.distances(nic, usable);
  if (up[nic] == PathGraph::unreachable || down[network] == PathGraph::unreachable) return {};
  return {search.path(nic, network, up, usable), search.path(network, nic, down, usable)};
}

// NicPaths is what the search finds for a NIC: its distance to each GPU.
struct NicPaths {
  NicPort port;
  PathGraph::Distances to_nic;
};

void sort_nics(NodeRoutes& routes, const NodeTemplate& node, const std::vector<NicPaths>& nics) {
  for (const std::uint32_t gpu : node.gpus) {
    std::vector<std::pair<std::uint32_t, int>> reached;
    for (std::size_t n = 0; n < nics.size(); ++n)
      if (!nics[n].port.out.empty() && nics[n].to_nic[gpu] != PathGraph::unreachable)
        reached.emplace_back(nics[n].to_nic[gpu], static_cast<int>(n));
    std::sort(reached.begin(), reached.end());
    std::vector<int>& near = routes.near.emplace_back();
    std::vector<int>& order = routes.order.emplace_back();
    for (const auto& [distance, nic] : reached) {
      order.push_back(nic);
      if (distance == reached.front().first) near.push_back(nic);
    }
  }
  for (std::size_t n = 0; n < nics.size(); ++n) {
    routes.nic_gpu.push_back(-1);
    for (std::size_t g = 0; g < node.gpus.size() && routes.nic_gpu[n] < 0; ++g)
      if (std::count(routes.near[g].begin(), routes.near[g].end(), static_cast<int>(n)) > 0)
        routes.nic_gpu[n] = static_cast<int>(g);
  }
}

}  // namespace

std::uint32_t NodeTemplate::add_part(PartKind kind, std::string name) {
  parts.push_back({kind, std::move(name)});
  return static_cast<std::uint32_t>(parts.size() - 1);
}
std::uint32_t NodeTemplate::add_gpu() {
  gpus.push_back(add_part(PartKind::gpu, "gpu " + std::to_string(gpus.size())));
  return gpus.back();
}
std::uint32_t NodeTemplate::add_nic() {
  nics.push_back(add_part(PartKind::nic, "nic " + std::to_string(nics.size())));
  return nics.back();
}
void NodeTemplate::connect(std::uint32_t a, std::uint32_t b, Link link, int bundled) {
  links.push_back({a, b, link, bundled});
  links.push_back({b, a, link, bundled});
}
NodeRoutes node_routes(const NodeTemplate& node, const std::vector<bool>& dead) {
  const RouteSearch search{node, dead};
  const std::vector<bool> host = search.mask(is_host);
  std::vector<NicPaths> nics;
  for (const std::uint32_t nic : node.nics)
    nics.push_back({nic_port(node, search, nic), search.distances(nic, host)});

  NodeRoutes routes;
  const std::size_t gpus = node.gpus.size();
  std::vector<std::vector<Hop>> paths(gpus * gpus);
  routes.kind.assign(gpus * gpus, PathKind::same_device);
  for (std::size_t to = 0; to < gpus; ++to) {
    WaysToGpu ways = ways_to_gpu(node, search, node.gpus[to]);
    for (std::size_t from = 0; from < gpus; ++from)
      if (from != to)
        std::tie(paths[from * gpus + to], routes.kind[from * gpus + to]) =
            gpu_path(node, search, node.gpus[from], node.gpus[to], ways);
    for (std::size_t n = 0; n < nics.size(); ++n) {
      std::vector<Hop> out;
      std::vector<Hop> in;
      if (!nics[n].port.out.empty()) {
        if (nics[n].to_nic[node.gpus[to]] != PathGraph::unreachable) {
          out = search.path(node.gpus[to], node.nics[n], nics[n].to_nic, host);
          out.insert(out.end(), nics[n].port.out.begin(), nics[n].port.out.end());
        }
        if (ways.by_host[node.nics[n]] != PathGraph::unreachable) {
          in = nics[n].port.in;
          const std::vector<Hop> rest =
              search.path(node.nics[n], node.gpus[to], ways.by_host, ways.host);
          in.insert(in.end(), rest.begin(), rest.end());
        }
      }
      routes.gpu_to_network.add(out);
      routes.network_to_gpu.add(in);
    }
  }
  for (const std::vector<Hop>& path : paths)
    routes.gpu_to_gpu.add(path);
  sort_nics(routes, node, nics);
  return routes;
}

Bandwidth nccl_pcie_bandwidth(int generation, int lanes) {
  const double per_lane = 15.0 * static_cast<double>(1U << static_cast<unsigned>(generation - 1));
  return Bandwidth::bytes_per_second(per_lane / 80 * lanes * 1e9);
}

Bandwidth nccl_nvlink_bandwidth(Generation generation) {
  switch (generation) {
    case Generation::volta:
    case Generation::ampere:
    case Generation::ada:
      return Bandwidth::bytes_per_second(20e9);
    case Generation::hopper:
      return Bandwidth::bytes_per_second(20.6e9);
    case Generation::blackwell:
      return Bandwidth::bytes_per_second(40.1e9);
    case Generation::cdna2:
      return Bandwidth::bytes_per_second(36e9);
    case Generation::cdna3:
    case Generation::cdna4:
      return Bandwidth::bytes_per_second(48e9);
    case Generation::cpu:
      return {};
  }
  SIM_CHECK(false, "unknown generation");
}

}  // namespace sim
