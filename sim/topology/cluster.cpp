#include "sim/topology/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/base/random.hpp"
#include "sim/config/file_kind.hpp"
#include "sim/topology/cluster_data.hpp"
#include "sim/topology/paths.hpp"

namespace sim {
namespace {

// A route being put together out of parts of the traffic, each link once.
class RouteBuilder {
 public:
  explicit RouteBuilder(std::vector<Hop>& hops) : hops_{hops} { hops_.reserve(16); }

  void add(std::span<const Hop> path, std::uint32_t base, std::uint32_t share) {
    for (const Hop& hop : path)
      add(LinkId{base + hop.link.value}, scaled(hop.share, share));
  }
  // Links of the same route may recur only where the traffic was split.
  void add(LinkId link, std::uint32_t share) {
    if (split_)
      for (Hop& hop : hops_)
        if (hop.link == link) {
          hop.share += share;
          return;
        }
    hops_.push_back({link, share});
  }
  void set_split(bool split) { split_ = split; }

 private:
  // Exact unless both are proper parts; then it rounds down, by less than 1/65536 of the traffic.
  static std::uint32_t scaled(std::uint32_t a, std::uint32_t b) {
    return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 16);
  }

  std::vector<Hop>& hops_;
  bool split_ = false;
};

// Where part of a message leaves its node and enters the other.
struct NicPair {
  int out = 0;
  int in = 0;
  int relay = -1;  // PXN: the GPU of the sending node that stands between, -1 if none
};

struct Endpoint {
  int node = 0;  // of the machine
  int gpu = 0;   // within the node
};

std::size_t at(int row, std::size_t width, int column) {
  return static_cast<std::size_t>(row) * width + static_cast<std::size_t>(column);
}

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

// Routes between nodes.
class NetworkRouter {
 public:
  NetworkRouter(const Cluster::Data& data, int used_gpus, Endpoint from, Endpoint to)
      : data_{data},
        used_gpus_{used_gpus},
        from_{from},
        to_{to},
        out_{data.routes_in(from.node)},
        in_{data.routes_in(to.node)},
        sender_{data.pool_of(from.node).node},
        receiver_{data.pool_of(to.node).node} {}

  // False when no NICs and fabric path are left.
  bool route(std::vector<Hop>& hops) const {
    std::vector<NicPair> pairs = preferred();
    std::erase_if(pairs, [&](const NicPair& pair) { return !connected(pair); });
    if (pairs.empty()) pairs = any_connected();
    if (pairs.empty()) return false;
    RouteBuilder builder{hops};
    builder.set_split(pairs.size() > 1 || data_.fabric.hash_flows > 1);
    const auto parts = static_cast<std::uint32_t>(pairs.size());
    for (std::uint32_t i = 0; i < parts; ++i)
      append(pairs[i], whole_share / parts + (i < whole_share % parts ? 1 : 0), builder);
    return true;
  }

 private:
  // NCCL's choice. On rails (ncclTopoGetNetDev with PXN, src/graph/search.cc) the message leaves
  // on the rail of the receiver's own NIC: through the sender's own NIC if that is on the rail,
  // else over NVLink to the GPU beside the NIC of that rail. Elsewhere each side uses its own NICs.
  std::vector<NicPair> preferred() const {
    std::vector<NicPair> pairs;
    const std::vector<int>& mine = out_.near[static_cast<std::size_t>(from_.gpu)];
    const std::vector<int>& theirs = in_.near[static_cast<std::size_t>(to_.gpu)];
    if (mine.empty() || theirs.empty()) return pairs;
    if (data_.fabric.rails > 1) {
      for (const int nic : theirs) {
        if (contains(mine, nic))
          pairs.push_back({nic, nic, -1});
        else if (const int relay = relay_for(nic); relay >= 0)
          pairs.push_back({nic, nic, relay});
        else
          pairs.push_back({mine.front(), nic, -1});
      }
      return pairs;
    }
    const std::size_t parts = std::max(mine.size(), theirs.size());
    for (std::size_t i = 0; i < parts; ++i)
      pairs.push_back({mine[i % mine.size()], theirs[i % theirs.size()], -1});
    return pairs;
  }

  // The GPU that PXN relays through to this NIC: one of the job, reached over NVLink, or -1.
  int relay_for(int nic) const {
    const int relay = out_.nic_gpu[static_cast<std::size_t>(nic)];
    if (relay < 0 || relay == from_.gpu || relay >= used_gpus_) return -1;
    return out_.kind[at(from_.gpu, sender_.gpus.size(), relay)] == PathKind::nvlink ? relay : -1;
  }

  // After a fault: any NIC pair that is connected, nearest first, one for all the traffic; a NIC
  // that the sender reaches only by NVLink through another GPU comes last.
  std::vector<NicPair> any_connected() const {
    for (const int in : in_.order[static_cast<std::size_t>(to_.gpu)]) {
      for (const int out : out_.order[static_cast<std::size_t>(from_.gpu)])
        if (const NicPair pair{out, in, -1}; connected(pair)) return {pair};
      for (std::size_t out = 0; out < sender_.nics.size(); ++out)
        if (const NicPair pair{static_cast<int>(out), in, relay_for(static_cast<int>(out))};
            pair.relay >= 0 && connected(pair))
          return {pair};
    }
    return {};
  }

  bool connected(const NicPair& pair) const {
    const int exit = pair.relay >= 0 ? pair.relay : from_.gpu;
    if (out_.gpu_to_network[at(exit, sender_.nics.size(), pair.out)].empty()) return false;
    if (in_.network_to_gpu[at(to_.gpu, receiver_.nics.size(), pair.in)].empty()) return false;
    if (!data_.fabric.has_dead_links() && !data_.fabric.separate_rails) return true;
    std::vector<Hop> ignored;
    return fabric_path(pair, ignored);
  }

  bool fabric_path(const NicPair& pair, std::vector<Hop>& hops) const {
    const std::uint64_t flow =
        hash_combine((std::uint64_t{static_cast<std::uint32_t>(from_.node)} << 32) |
                         static_cast<std::uint32_t>(from_.gpu),
                     (std::uint64_t{static_cast<std::uint32_t>(to_.node)} << 32) |
                         static_cast<std::uint32_t>(to_.gpu));
    return data_.fabric.path(data_.fabric.switch_of(from_.node, pair.out),
                             data_.fabric.switch_of(to_.node, pair.in), flow, hops);
  }

  void append(const NicPair& pair, std::uint32_t share, RouteBuilder& builder) const {
    const std::uint32_t out_base = static_cast<std::uint32_t>(from_.node) * data_.links_per_node();
    const std::uint32_t in_base = static_cast<std::uint32_t>(to_.node) * data_.links_per_node();
    int exit = from_.gpu;
    if (pair.relay >= 0) {
      builder.add(out_.gpu_to_gpu[at(exit, sender_.gpus.size(), pair.relay)], out_base, share);
      exit = pair.relay;
    }
    builder.add(out_.gpu_to_network[at(exit, sender_.nics.size(), pair.out)], out_base, share);
    std::vector<Hop> across;
    const bool found = fabric_path(pair, across);
    SIM_CHECK(found, "a connected pair of NICs has no path");
    builder.add(across, data_.fabric_base(), share);
    builder.add(in_.network_to_gpu[at(to_.gpu, receiver_.nics.size(), pair.in)], in_base, share);
  }

  const Cluster::Data& data_;
  int used_gpus_;
  Endpoint from_, to_;
  const NodeRoutes& out_;
  const NodeRoutes& in_;
  const NodeTemplate& sender_;
  const NodeTemplate& receiver_;
};

Cluster Cluster::load(const std::string& path, std::optional<int> nodes,
                      const ClusterChanges& changes) {
  Document document = Document::load(path);
  refuse_other_kinds(document, FileKind::cluster);
  // No shipped file has this section; what-ifs may begin it.
  const bool of_transport =
      std::any_of(changes.cluster.begin(), changes.cluster.end(),
                  [](const Change& change) { return change.key.starts_with("transport."); });
  if (of_transport && !document.root_has("transport"))
    document.change(std::array{Change{"transport", "{}"}});
  document.change(changes.cluster);
  ClusterFiles files;
  files.device = [&](const std::string& file) { return load_device(file, changes.device); };
  auto data = std::make_unique<Data>(read_cluster(document, nodes, files));
  if (data->pools.size() > 1) {
    if (!changes.device.empty())
      throw InputError(
          {path, 0, 0},
          fmt::format("cluster.device.{}: this cluster has pools with devices of their "
                      "own; allowed: pools of other cluster files",
                      changes.device.front().key));
  } else if (!changes.empty()) {
    data->pools.front().measured.clear();
  }
  for (const Change& change : changes.cluster)
    data->sources.push_back(fmt::format("what if {} were {}", change.key, change.value));
  return Cluster{std::move(data)};
}

Cluster::Cluster(std::unique_ptr<Data> data) : Cluster{data.get()} {
  owned_ = std::move(data);
  data_->index();
}
Cluster::Cluster(Data* shared)
    : data_{shared},
      pool_{shared->pools.size() == 1 ? 0 : shared->pools.size()},
      used_gpus_{node_gpus()} {}
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;
Cluster::~Cluster() = default;

const std::string& Cluster::name() const {
  return data_->name;
}
const Device& Cluster::device() const {
  return data_->view(pool_).device;
}
int Cluster::nodes() const {
  return places_ ? static_cast<int>(places_->size()) : data_->nodes;
}
const std::vector<int>& Cluster::places() const {
  static const std::vector<int> all;
  return places_ ? *places_ : all;
}
int Cluster::machine_nodes() const {
  return data_->nodes;
}
std::string Cluster::node_name(int place) const {
  SIM_CHECK(place >= 0 && place < machine_nodes(), place, machine_nodes());
  const auto at = static_cast<std::size_t>(place);
  return at < data_->node_names.size() ? data_->node_names[at] : fmt::format("node{}", place);
}
int Cluster::node_gpus() const {
  std::size_t gpus = data_->pools.front().node.gpus.size();
  for (const Data::Pool& pool : data_->pools)
    gpus = std::min(gpus, pool.node.gpus.size());
  return static_cast<int>(gpus);
}
int Cluster::trays() const {
  return data_->view(pool_).trays;
}
void Cluster::use_gpus_per_node(int gpus) {
  SIM_CHECK(gpus >= 1 && gpus <= node_gpus(), gpus, node_gpus());
  used_gpus_ = gpus;
}
Cluster Cluster::with_gpus_per_node(int gpus) const {
  Cluster other = of_pool(pool_);
  other.use_gpus_per_node(gpus);
  return other;
}
void Cluster::use_nodes(std::vector<int> places) {
  SIM_CHECK(!places.empty());
  std::vector<bool> used(static_cast<std::size_t>(machine_nodes()));
  for (const int place : places) {
    SIM_CHECK(place >= 0 && place < machine_nodes(), place, machine_nodes());
    SIM_CHECK(!used[static_cast<std::size_t>(place)], "twice", place);
    used[static_cast<std::size_t>(place)] = true;
  }
  places_ = std::make_shared<const std::vector<int>>(std::move(places));
}
Cluster Cluster::with_nodes(std::vector<int> places) const {
  Cluster other = of_pool(pool_);
  other.use_nodes(std::move(places));
  return other;
}
const NetworkTraits& Cluster::network() const {
  return data_->view(pool_).network;
}
const HostTraits& Cluster::host() const {
  return data_->view(pool_).host;
}
Bandwidth Cluster::host_copy() const {
  Bandwidth least{};
  for (std::size_t i = 0; i < data_->pools.size(); ++i) {
    if (pool_ < data_->pools.size() && i != pool_) continue;
    const Bandwidth rate = host_copy_rate(data_->pools[i].node, gpus_per_node());
    if (least == Bandwidth{} || rate < least) least = rate;
  }
  return least;
}
std::span<const MeasuredCurve> Cluster::measured() const {
  return data_->view(pool_).measured;
}
void Cluster::set_measured(std::vector<MeasuredCurve> curves, std::string source) {
  data_->pools.front().measured = std::move(curves);
  data_->sources.push_back(std::move(source));
}
std::vector<MeasuredCurve> Cluster::take_measured() {
  return std::exchange(data_->pools.front().measured, {});
}
const std::vector<std::string>& Cluster::sources() const {
  return data_->sources;
}
const std::string& Cluster::not_validated() const {
  return data_->view(pool_).not_validated;
}

std::size_t Cluster::pools() const {
  return data_->pools.size();
}
std::size_t Cluster::pool_of(GpuId gpu) const {
  return data_->pool_index(place_of(node_of(gpu)));
}
const std::string& Cluster::pool_name(std::size_t pool) const {
  return data_->pools[pool].name;
}
Cluster Cluster::of_pool(std::size_t pool) const {
  Cluster view{data_};
  view.used_gpus_ = used_gpus_;
  view.places_ = places_;
  view.pool_ = pool;
  return view;
}
Cluster Cluster::of_group(std::span<const GpuId> gpus) const {
  if (data_->pools.size() == 1) return of_pool(0);
  const std::size_t first = pool_of(gpus.front());
  const bool within =
      std::all_of(gpus.begin(), gpus.end(), [&](GpuId gpu) { return pool_of(gpu) == first; });
  return of_pool(within ? first : data_->pools.size());
}
bool Cluster::generations_differ() const {
  if (pool_ < data_->pools.size()) return false;
  return std::any_of(data_->pools.begin(), data_->pools.end(), [&](const Data::Pool& pool) {
    return pool.device.generation != data_->pools.front().device.generation;
  });
}

void Cluster::Data::index() {
  for (const Pool& pool : pools)
    most_node_links = std::max(most_node_links, static_cast<std::uint32_t>(pool.node.links.size()));
  for (Pool& pool : pools) {
    for (const PartLink& link : pool.node.links)
      pool.flat_links.push_back(link.link);
    pool.flat_links.resize(most_node_links);
  }
  for (const auto& link : fabric.links)
    flat_fabric_links.push_back(link.link);
  flat_fabric_base = fabric_base();
}
const Cluster::Data& Cluster::data() const {
  return *data_;
}

std::uint32_t Cluster::link_count() const {
  return data_->fabric_base() + static_cast<std::uint32_t>(data_->fabric.links.size());
}

const Link& Cluster::link(LinkId id) const {
  const Data& data = *data_;
  if (!data.changed_links.empty())
    if (const auto found = data.changed_links.find(id.value); found != data.changed_links.end())
      return found->second;
  if (id.value < data.flat_fabric_base) {
    const Data::Pool& pool = data.pool_of(static_cast<int>(id.value / data.most_node_links));
    return pool.flat_links[id.value % data.most_node_links];
  }
  const std::size_t in_fabric = id.value - data.flat_fabric_base;
  SIM_CHECK(in_fabric < data.flat_fabric_links.size(), "no link", id.value);
  return data.flat_fabric_links[in_fabric];
}

std::string Cluster::link_name(LinkId id) const {
  SIM_CHECK(id.value < link_count(), "no link", id.value);
  const Data& data = *data_;
  if (id.value >= data.fabric_base()) return data.fabric.link_name(id.value - data.fabric_base());
  const auto node = static_cast<int>(id.value / data.links_per_node());
  const NodeTemplate& parts = data.pool_of(node).node;
  if (id.value % data.links_per_node() >= parts.links.size())
    return fmt::format("node {} no link", node);
  const PartLink& link = parts.links[id.value % data.links_per_node()];
  const auto part_name = [&](std::uint32_t part, std::uint32_t nic_part) {
    if (parts.parts[part].kind != PartKind::network) return parts.parts[part].name;
    const auto nic = std::find(parts.nics.begin(), parts.nics.end(), nic_part);
    if (nic == parts.nics.end()) return data.fabric.switch_name(data.fabric.switch_of(node, 0));
    return data.fabric.switch_name(
        data.fabric.switch_of(node, static_cast<int>(nic - parts.nics.begin())));
  };
  return fmt::format("node {} {} -> {}", node, part_name(link.from, link.to),
                     part_name(link.to, link.from));
}

std::uint32_t Cluster::links_per_node() const {
  return data_->links_per_node();
}

bool Cluster::node_as_built(int node) const {
  const int place = place_of(node);
  const std::uint32_t first = static_cast<std::uint32_t>(place) * links_per_node();
  const auto changed = data_->changed_links.lower_bound(first);
  const bool any =
      changed != data_->changed_links.end() && changed->first < first + links_per_node();
  return !any && data_->dead_in_node.count(place) == 0;
}

Route Cluster::route(GpuId from, GpuId to) const {
  const auto count = static_cast<std::uint32_t>(gpus());
  SIM_CHECK(from.value < count && to.value < count, from.value, to.value, count);
  Route route;
  if (from == to) {
    // A copy reads and writes the device's memory.
    route.bandwidth = data_->pool_of(place_of(node_of(from))).device.memory_bandwidth * 0.5;
    return route;
  }
  const int per_node = gpus_per_node();
  const Endpoint source{place_of(node_of(from)), static_cast<int>(from.value) % per_node};
  const Endpoint target{place_of(node_of(to)), static_cast<int>(to.value) % per_node};
  if (source.node == target.node) {
    const NodeRoutes& routes = data_->routes_in(source.node);
    const std::size_t pair =
        at(source.gpu, data_->pool_of(source.node).node.gpus.size(), target.gpu);
    route.kind = routes.kind[pair];
    RouteBuilder{route.hops}.add(routes.gpu_to_gpu[pair],
                                 static_cast<std::uint32_t>(source.node) * data_->links_per_node(),
                                 whole_share);
  } else {
    route.kind = PathKind::network;
    if (!NetworkRouter{*data_, used_gpus_, source, target}.route(route.hops)) route.hops.clear();
  }
  if (route.hops.empty())
    throw InputError({data_->file, 0, 0},
                     fmt::format("no path is left from node {} gpu {} to node {} gpu {}: dead "
                                 "links cut it",
                                 source.node, source.gpu, target.node, target.gpu));
  finish_route(route);
  route.pool = of_group(std::array{from, to}).pool();
  return route;
}

// Latency: mean over the traffic, which is the sum over one path where all paths are alike.
void Cluster::finish_route(Route& route) const {
  std::int64_t weighted = 0;
  double bandwidth = std::numeric_limits<double>::infinity();
  for (const Hop& hop : route.hops) {
    const Link& used = link(hop.link);
    weighted += used.latency.count() * static_cast<std::int64_t>(hop.share);
    bandwidth = std::min(bandwidth, used.capacity.in_bytes_per_second() *
                                        (static_cast<double>(whole_share) / hop.share));
  }
  route.latency = Duration{(weighted + whole_share / 2) / whole_share};
  route.bandwidth = Bandwidth::bytes_per_second(bandwidth);
}

}  // namespace sim
