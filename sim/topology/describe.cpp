#include "sim/topology/describe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "sim/base/quantity.hpp"
#include "sim/topology/cluster_data.hpp"
#include "sim/topology/paths.hpp"
#include "sim/topology/unvalidated.hpp"

namespace sim {
namespace {

// Links that look alike, of one kind.
struct LinkClass {
  LinkKind kind = LinkKind::nvlink;
  double capacity = 0;
  std::int64_t latency = 0;
  bool operator<(const LinkClass& other) const {
    return std::tie(kind, capacity, latency) < std::tie(other.kind, other.capacity, other.latency);
  }
};
struct LinkSum {
  std::uint64_t count = 0;
  std::uint32_t example = 0;
};

// Healthy links by class; those of the nodes counted once per node.
std::map<LinkClass, LinkSum> link_classes(const Cluster& cluster) {
  const Cluster::Data& data = cluster.data();
  std::map<LinkClass, LinkSum> classes;
  const auto add = [&](const Link& link, std::uint64_t count, std::uint32_t id) {
    LinkSum& sum = classes[{link.kind, link.capacity.in_bytes_per_second(), link.latency.count()}];
    if (sum.count == 0) sum.example = id;
    sum.count += count;
  };
  for (const Cluster::Data::Pool& pool : data.pools) {
    const std::uint32_t base = static_cast<std::uint32_t>(pool.first_node) * data.links_per_node();
    for (std::uint32_t k = 0; k < pool.node.links.size(); ++k)
      add(pool.node.links[k].link, static_cast<std::uint64_t>(pool.nodes), base + k);
  }
  for (std::uint32_t f = 0; f < data.fabric.links.size(); ++f)
    add(data.fabric.links[f].link, 1, data.fabric_base() + f);
  return classes;
}

std::string path_text(const Cluster& cluster, const Route& route) {
  std::string text;
  std::size_t shown = 0;
  for (const Hop& hop : route.hops) {
    if (++shown > 16) {
      text += fmt::format("\n    and {} more", route.hops.size() - 16);
      break;
    }
    text += "\n    " + cluster.link_name(hop.link);
    if (hop.share != whole_share) text += fmt::format("  {:.3g}%", hop.share * 100.0 / whole_share);
  }
  return text;
}

std::string quality_text(const Cluster& cluster, const Route& route) {
  const PathQuality quality = path_quality(cluster, route);
  std::string text;
  if (quality.loss > 0)
    text += fmt::format(", {:.2g} of packets lost, {:.1f} % of the rate left", quality.loss,
                        100 / quality.sends);
  if (quality.most > Bandwidth{}) text += ", window allows " + to_text(quality.most);
  return text;
}

std::string example_routes(const Cluster& cluster) {
  const auto per_node = static_cast<std::uint32_t>(cluster.gpus_per_node());
  const auto gpus = static_cast<std::uint32_t>(cluster.gpus());
  std::set<std::uint32_t> targets;
  if (per_node > 1) targets.insert({1, per_node - 1});
  if (cluster.nodes() > 1) targets.insert({per_node, gpus - per_node, gpus - 1});
  std::string text;
  for (const std::uint32_t target : targets) {
    const Route route = cluster.route(GpuId{0}, GpuId{target});
    text += fmt::format("  node 0 gpu 0 to node {} gpu {}: {}, {}, {}{}{}\n", target / per_node,
                        target % per_node, word(route.kind), to_text(route.bandwidth),
                        to_text(route.latency), quality_text(cluster, route),
                        path_text(cluster, route));
  }
  return text;
}

// Flows are counted in MB/s, to be whole numbers; a cluster has up to 1e8 MB/s.
std::int64_t megabytes(Bandwidth rate) {
  return static_cast<std::int64_t>(std::llround(rate.in_bytes_per_second() / 1e6));
}

// The rate of each NIC of a node; a limit of the whole node (uplink) is shared by its NICs.
std::vector<std::int64_t> nic_rates(const NodeTemplate& node) {
  std::vector<std::int64_t> out(node.nics.size());
  std::int64_t limit = 0;
  std::int64_t total = 0;
  for (const PartLink& link : node.links) {
    if (link.link.kind != LinkKind::nic) continue;
    if (node.parts[link.from].kind == PartKind::uplink &&
        node.parts[link.to].kind == PartKind::network)
      limit = megabytes(link.link.capacity);
    for (std::size_t n = 0; n < out.size(); ++n)
      if (link.from == node.nics[n]) total += out[n] = megabytes(link.link.capacity);
  }
  if (limit > 0 && limit < total)
    for (std::int64_t& rate : out)
      rate = rate * limit / total;
  return out;
}

std::string node_line(const NodeTemplate& node) {
  std::map<PartKind, int> parts;
  for (const Part& part : node.parts)
    ++parts[part.kind];
  std::string text = "node:";
  for (const auto& [kind, count] : parts)
    if (kind != PartKind::network) text += fmt::format(" {} {},", count, word(kind));
  text.back() = '\n';
  return text;
}

std::string network_text(const NetworkTraits& network) {
  return fmt::format(
      "network: {} CPUs, NVLink SHARP {}, fabric SHARP {}, {} per message, "
      "payload {:g}% of the line rate\n",
      network.cpu_vendor, network.nvls ? "yes" : "no", network.sharp ? "yes" : "no",
      to_text(network.network_overhead), network.network_efficiency * 100);
}

}  // namespace

Bandwidth bisection_bandwidth(const Cluster& cluster) {
  const Cluster::Data& data = cluster.data();
  if (data.nodes < 2 || data.fabric.switches == 0) return {};
  const std::uint32_t source = data.fabric.switches;
  const std::uint32_t sink = source + 1;
  std::map<std::pair<bool, std::uint32_t>, std::int64_t> ends;  // by half and switch
  const int half = data.nodes / 2;
  for (int node = 0; node < 2 * half; ++node) {
    const std::vector<std::int64_t> out = nic_rates(data.pool_of(node).node);
    for (std::size_t n = 0; n < out.size(); ++n)
      ends[{node >= half, data.fabric.switch_of(node, static_cast<int>(n))}] += out[n];
  }
  std::vector<Pipe> pipes;
  pipes.reserve(ends.size() + data.fabric.links.size());
  for (const auto& [end, rate] : ends)
    pipes.push_back(end.first ? Pipe{end.second, sink, rate} : Pipe{source, end.second, rate});
  for (std::uint32_t f = 0; f < data.fabric.links.size(); ++f)
    pipes.push_back({data.fabric.links[f].from, data.fabric.links[f].to,
                     megabytes(cluster.link(LinkId{data.fabric_base() + f}).capacity)});
  return Bandwidth::bytes_per_second(static_cast<double>(max_flow(sink + 1, pipes, source, sink)) *
                                     1e6);
}

std::string describe(const Cluster& cluster) {
  const Cluster::Data& data = cluster.data();
  std::string text =
      fmt::format("{}: {} nodes x {} {} = {} GPUs\n", cluster.name(), cluster.nodes(),
                  cluster.gpus_per_node(), cluster.device().name, cluster.gpus());
  if (data.pools.size() == 1) text += node_line(data.pools.front().node);
  for (std::size_t i = 0; data.pools.size() > 1 && i < data.pools.size(); ++i) {
    const Cluster::Data::Pool& pool = data.pools[i];
    text += fmt::format("pool {}: {} nodes of {}, {}\n  {}  {}", i, pool.nodes, pool.name,
                        pool.device.name, node_line(pool.node), network_text(pool.network));
  }
  text += fmt::format("fabric: {}", word(data.fabric.kind));
  if (!data.fabric.shape.empty()) text += ", " + data.fabric.shape;
  text += '\n';
  if (data.pools.size() == 1) text += network_text(cluster.network());
  if (const Transport& transport = data.transport; transport.limits())
    text += fmt::format(
        "transport: {}, of packets lost {:g} on a NIC's link and {:g} on a link between switches, "
        "{} until a packet is sent again, {} retries, window {}\n",
        word(transport.recovery), transport.nic_loss, transport.fabric_loss,
        to_text(transport.timeout), transport.retries,
        transport.window > Bytes{} ? to_text(transport.window) : "without a limit");
  text += fmt::format("links (each direction is one):\n  {:<8}{:>10}  {:>10}  {:>9}  example\n",
                      "kind", "count", "capacity", "latency");
  for (const auto& [kind, sum] : link_classes(cluster))
    text += fmt::format("  {:<8}{:>10}  {:>10}  {:>9}  {}\n", word(kind.kind), sum.count,
                        to_text(Bandwidth::bytes_per_second(kind.capacity)),
                        to_text(Duration{kind.latency}), cluster.link_name(LinkId{sum.example}));
  if (cluster.nodes() > 1)
    text += fmt::format("bisection bandwidth: {} per direction\n",
                        to_text(bisection_bandwidth(cluster)));
  const std::string routes = example_routes(cluster);
  if (!routes.empty()) text += "routes:\n" + routes;
  bool is_first = true;
  for (const Cluster::Data::Pool& pool : data.pools)
    for (const MeasuredCurve& curve : pool.measured) {
      if (std::exchange(is_first, false)) text += "measured curves:\n";
      text += fmt::format("  {}, ranks {}, nodes {}, {} sizes: {}\n", curve.collective, curve.ranks,
                          curve.nodes, curve.points.size(), curve.source);
    }
  for (const Unvalidated& part : unvalidated(cluster))
    text += fmt::format("not validated: {} {}: {}\n", part.what, part.name, part.rests_on);
  text += "sources:\n";
  for (const std::string& source : cluster.sources())
    text += "  " + source + '\n';
  return text;
}

std::string node_graphviz(const Cluster& cluster) {
  const NodeTemplate& node = cluster.data().pools.front().node;
  std::string text = "graph node_template {\n";
  for (std::size_t i = 0; i < node.parts.size(); ++i) {
    const Part& part = node.parts[i];
    const char* const shape = part.kind == PartKind::gpu   ? "box"
                              : part.kind == PartKind::nic ? "cds"
                                                           : "ellipse";
    text += fmt::format("  p{} [label=\"{}\", shape={}];\n", i, part.name, shape);
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> drawn;
  for (const PartLink& link : node.links)
    if (drawn.insert(std::minmax(link.from, link.to)).second)
      text += fmt::format("  p{} -- p{} [label=\"{}\"];\n", link.from, link.to,
                          to_text(link.link.capacity));
  return text + "}\n";
}

}  // namespace sim
