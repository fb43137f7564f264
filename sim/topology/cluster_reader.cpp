// The cluster file: format and a complete example in topologies/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/reader.hpp"
#include "sim/topology/cluster_data.hpp"
#include "sim/topology/device_of_gpu.hpp"
#include "sim/topology/fabric_builders.hpp"
#include "sim/topology/node_builders.hpp"

namespace sim {
namespace {

NetworkTraits read_network(const ObjectReader& reader) {
  NetworkTraits traits;
  traits.cpu_vendor = reader.text("cpu_vendor");
  constexpr std::array<std::string_view, 3> vendors{"intel", "amd", "arm"};
  if (std::find(vendors.begin(), vendors.end(), traits.cpu_vendor) == vendors.end())
    reader.problem("cpu_vendor", fmt::format("cpu_vendor is \"{}\"; allowed: intel, amd, arm",
                                             traits.cpu_vendor));
  traits.nvls = reader.boolean_or("nvls", false);
  traits.sharp = reader.boolean_or("sharp", false);
  traits.network_overhead = reader.duration("overhead");
  traits.simple_overhead = reader.duration_or("simple_overhead", Duration{});
  traits.nvls_tree = reader.boolean_or("nvls_tree", true);
  traits.merged_nics = reader.boolean_or("merged_nics", false);
  if (reader.has("tuner")) {
    const ObjectReader tuner = reader.object("tuner");
    traits.most_ll = tuner.bytes("ll");
    if (tuner.has("ll128")) traits.most_ll128 = tuner.bytes("ll128");
    if (traits.most_ll128 && *traits.most_ll128 < *traits.most_ll)
      tuner.problem("ll128", "ll128 is less than ll; allowed: at least as much");
  }
  traits.network_efficiency = reader.real_or("efficiency", 1, {.min = 0.01, .max = 1});
  return traits;
}

Transport read_transport(const ObjectReader& reader) {
  constexpr RealRange chance{.min = 0, .max = 0.5};
  Transport transport;
  transport.nic_loss = reader.real_or("loss", 0, chance);
  transport.fabric_loss = reader.real_or("fabric_loss", transport.nic_loss, chance);
  transport.recovery = reader.word_or<LossRecovery>("recovery", transport.recovery);
  transport.mtu = reader.bytes_or("mtu", transport.mtu);
  transport.timeout = reader.duration_or("timeout", transport.timeout);
  transport.retries = as_int(reader.integer_or("retries", transport.retries, {.min = 0, .max = 7}));
  transport.window = reader.bytes_or("window", transport.window);
  transport.round_trip = reader.duration_or("round_trip", transport.round_trip);
  if (transport.mtu < Bytes{256} || transport.mtu > Bytes{65536})
    reader.problem("mtu", "mtu is a packet's payload; allowed: 256 B to 64 KiB");
  if (transport.timeout <= Duration{})
    reader.problem("timeout", "timeout is 0; allowed: more, such as 100 us");
  if (transport.window > Bytes{} && transport.window < transport.mtu)
    reader.problem("window", "window is less than one packet (mtu); allowed: at least as much");
  return transport;
}

HostTraits read_host(const ObjectReader& reader) {
  HostTraits traits;
  traits.memory = reader.bytes_or("memory", Bytes{});
  traits.bandwidth = reader.bandwidth_or("bandwidth", Bandwidth{});
  if (reader.has("nvme")) {
    const ObjectReader disk = reader.object("nvme");
    traits.disk_read = disk.bandwidth("read");
    traits.disk_write = disk.bandwidth("write");
    traits.disk = disk.bytes_or("capacity", Bytes{});
  }
  traits.source = reader.text("source");
  return traits;
}

void read_clos(const ObjectReader& reader, FabricSpec& spec, int nics) {
  spec.levels = as_int(reader.integer_or("levels", 2, {.min = 2, .max = 3}));
  spec.oversubscription = reader.real_or("oversubscription", 1, {.min = 1, .max = 1000});
  const int per_leaf_node = spec.kind == FabricKind::rail_optimised ? 1 : std::max(1, nics);
  const int radix = as_int(reader.integer_or("radix", 0, {.min = 2, .max = 4096}));
  if (radix > 0) {
    // Ports down : ports up = over-subscription : 1.
    const double down = radix * spec.oversubscription / (1 + spec.oversubscription);
    spec.nodes_per_switch = static_cast<int>(down) / per_leaf_node;
    if (spec.nodes_per_switch < 1)
      reader.problem("radix", fmt::format("a switch of {} ports has {} for nodes, fewer than the "
                                          "{} NICs of one",
                                          radix, static_cast<int>(down), per_leaf_node));
  }
  if (radix == 0 || reader.has("nodes_per_leaf"))
    spec.nodes_per_switch = as_int(reader.integer("nodes_per_leaf", {.min = 1, .max = most_nodes}));
  if (spec.levels == 3) {
    spec.leaves_per_pod =
        as_int(reader.integer_or("leaves_per_pod", radix / 2, {.min = 1, .max = most_nodes}));
    if (spec.leaves_per_pod < 1)
      reader.problem("a fabric of 3 levels needs leaves_per_pod or radix");
    spec.pod_oversubscription = reader.real_or("pod_oversubscription", 1, {.min = 1, .max = 1000});
  }
  spec.every_switch = reader.boolean_or("every_switch", spec.routing == Routing::hash);
  spec.separate_rails = reader.boolean_or("separate_rails", false);
  if (spec.separate_rails && spec.kind != FabricKind::rail_optimised)
    reader.problem("separate_rails", "separate_rails goes with kind: rail_optimised");
  if (spec.routing == Routing::hash && !spec.every_switch)
    reader.problem("every_switch", "routing by hash picks one spine, so every_switch must be true");
}

void read_dragonfly(const ObjectReader& reader, FabricSpec& spec) {
  spec.groups = as_int(reader.integer("groups", {.min = 1, .max = 4096}));
  spec.routers_per_group = as_int(reader.integer("routers_per_group", {.min = 1, .max = 256}));
  spec.global_links = as_int(reader.integer("global_links_per_router", {.min = 1, .max = 256}));
  spec.nodes_per_switch = as_int(reader.integer("nodes_per_router", {.min = 1, .max = 1024}));
  spec.global_link = reader.bandwidth_or("global_link", spec.link);
  spec.global_latency = reader.duration_or("global_latency", Duration{});
}

void read_torus(const ObjectReader& reader, FabricSpec& spec) {
  const std::vector<ValueReader> dims = reader.list("dims");
  if (dims.empty() || dims.size() > 3) {
    reader.problem("dims", "dims has one to three sizes, for example [8, 8, 4]");
    return;
  }
  for (std::size_t i = 0; i < dims.size(); ++i)
    spec.dims[i] = as_int(dims[i].integer({.min = 1, .max = 64}));
  spec.nodes_per_switch = as_int(reader.integer_or("nodes_per_router", 1, {.min = 1, .max = 1024}));
}

void read_sites(const ObjectReader& reader, FabricSpec& spec) {
  spec.sites = as_int(reader.integer("sites", {.min = 1, .max = 4096}));
  spec.site_link = reader.bandwidth("bandwidth");
  spec.site_latency = reader.duration("latency");
}

FabricSpec read_fabric(const ObjectReader& reader, std::span<const Link> nics) {
  FabricSpec spec;
  spec.where = reader.where("kind");
  spec.kind = reader.word<FabricKind>("kind");
  if (spec.kind == FabricKind::none) return spec;
  spec.switch_latency = reader.duration("switch_latency");
  const Bandwidth nic = nics.empty() ? Bandwidth{} : nics.front().capacity;
  spec.link = nic;
  switch (spec.kind) {
    case FabricKind::none:
    case FabricKind::flat:
      return spec;
    case FabricKind::sites:
      read_sites(reader, spec);
      return spec;
    case FabricKind::fat_tree:
    case FabricKind::rail_optimised:
    case FabricKind::dragonfly:
    case FabricKind::torus:
      break;
  }
  spec.routing = reader.word_or<Routing>("routing", Routing::spread);
  spec.link = reader.bandwidth_or("link", nic);
  if (spec.kind == FabricKind::dragonfly)
    read_dragonfly(reader, spec);
  else if (spec.kind == FabricKind::torus)
    read_torus(reader, spec);
  else
    read_clos(reader, spec, static_cast<int>(nics.size()));
  return spec;
}

MeasuredCurve read_curve(const ObjectReader& reader) {
  MeasuredCurve curve;
  curve.collective = reader.text("collective");
  constexpr std::array<std::string_view, 7> known{"all_reduce",  "reduce_scatter", "all_gather",
                                                  "broadcast",   "reduce",         "all_to_all",
                                                  "send_receive"};
  if (std::find(known.begin(), known.end(), curve.collective) == known.end())
    reader.problem("collective", fmt::format("collective is \"{}\"; allowed: {}", curve.collective,
                                             fmt::join(known, ", ")));
  curve.ranks = as_int(reader.integer("ranks", {.min = 2, .max = 1 << 24}));
  curve.nodes = as_int(reader.integer("nodes", {.min = 1, .max = most_nodes}));
  curve.algorithm = reader.text_or("algorithm", "");
  constexpr std::array<std::string_view, 8> algorithms{
      "",      "ring", "tree", "halving_doubling", "hierarchical", "in_switch", "parameter_server",
      "direct"};
  if (std::find(algorithms.begin(), algorithms.end(), curve.algorithm) == algorithms.end())
    reader.problem("algorithm", fmt::format("algorithm is \"{}\"; allowed: {}", curve.algorithm,
                                            fmt::join(std::span{algorithms}.subspan(1), ", ")));
  curve.source = reader.text("source");
  for (const ValueReader& value : reader.list("points")) {
    const std::vector<ValueReader> pair = value.list();
    if (pair.size() != 2) {
      value.problem("a point is [size, time], for example [1 MiB, 35 us]");
      continue;
    }
    const MeasuredPoint point{pair[0].bytes(), pair[1].duration()};
    if (!curve.points.empty() && point.size <= curve.points.back().size)
      value.problem("sizes must ascend");
    curve.points.push_back(point);
  }
  return curve;
}

// Imported nodes are read at once: the fabric's checks need their NICs.
ImportedNode make_node(const NodeSpec& spec, const std::string& path, const Device& device,
                       const ClusterFiles& files) {
  if (spec.kind == NodeKind::imported) {
    if (spec.file.empty()) return {};
    ImportDefaults defaults = spec.defaults;
    defaults.generation = device.generation;
    return files.node(resolve_path(path, spec.file), defaults);
  }
  ImportedNode made{.node = build_node(spec), .trays = spec.trays};
  made.nics.assign(made.node.nics.size(), {LinkKind::nic, spec.nic, spec.nic_latency});
  return made;
}

// Takes over the notes on an imported node: what its file did not say, and what is odd about it.
void take_notes(const ImportedNode& node, const std::string& file, Cluster::Data& data) {
  for (const std::string& warning : node.warnings)
    data.node_notes.push_back(fmt::format("{}: WARNING: {}", file, warning));
  for (const std::string& note : node.notes)
    data.node_notes.push_back(fmt::format("{}: {}", file, note));
  data.sources.insert(data.sources.end(), data.node_notes.begin(), data.node_notes.end());
}

void take_nics(const std::vector<Link>& nics, NetworkTraits& network) {
  network.nics_per_node = static_cast<int>(nics.size());
  for (const Link& nic : nics)
    if (network.nic_rate == Bandwidth{} || nic.capacity < network.nic_rate)
      network.nic_rate = nic.capacity;
}

}  // namespace

Cluster::Data read_cluster(const Document& document, std::optional<int> nodes,
                           const ClusterFiles& files) {
  const std::string& path = document.name();
  const ObjectReader top = document.root_object();
  Cluster::Data data;
  data.file = path;
  data.name = top.text("name");
  // Empty: a problem that finish() reports.
  const std::string device = top.text("device");
  if (!device.empty())
    data.device = files.device(referenced_file(path, device, "topologies/devices"));
  const int sharing = as_int(top.integer_or("ranks_per_gpu", 1, {.min = 1, .max = 50}));
  if (!device.empty()) data.device = share_of_gpu(data.device, sharing);
  data.nodes = as_int(top.integer("nodes", {.min = 1, .max = most_nodes}));
  if (nodes) data.nodes = *nodes;
  const NodeSpec spec = read_node(top.object("node"));
  ImportedNode node = make_node(spec, path, data.device, files);
  FabricSpec fabric = read_fabric(top.object("fabric"), node.nics);
  const Bandwidth node_limit = fabric.kind == FabricKind::flat ? top.object("fabric").bandwidth_or(
                                                                     "per_node_limit", Bandwidth{})
                                                               : Bandwidth{};
  data.network = read_network(top.object("network"));
  if (top.has("transport")) data.transport = read_transport(top.object("transport"));
  if (top.has("host")) data.host = read_host(top.object("host"));
  if (top.has("measured"))
    for (const ValueReader& curve : top.list("measured"))
      data.measured.push_back(read_curve(curve.object()));
  for (const ValueReader& line : top.list("sources"))
    data.sources.push_back(line.text());
  data.not_validated = top.text_or("not_validated", "");
  if (data.nodes > 1 && (fabric.kind == FabricKind::none || node.nics.empty()))
    top.problem("fabric", fmt::format("{} nodes need a fabric and NICs", data.nodes));
  if (fabric.kind != FabricKind::none && node.nics.empty())
    top.problem("fabric", "a fabric needs node.nics");
  document.finish();
  if (nodes && (*nodes < 1 || *nodes > most_nodes))
    throw InputError(top.where("nodes"),
                     fmt::format("nodes is {}; allowed: 1 to {}", *nodes, most_nodes));

  data.node = std::move(node.node);
  data.trays = node.trays;
  take_nics(node.nics, data.network);
  take_notes(node, spec.file, data);
  data.fabric = build_fabric(fabric, data.nodes, node.nics);
  attach_network(data.node, node.nics, node_limit, fabric.switch_latency);
  const std::uint64_t links =
      std::uint64_t{data.node.links.size()} * static_cast<unsigned>(data.nodes) +
      data.fabric.links.size();
  if (links >= std::uint64_t{1} << 32)
    throw InputError(top.where("nodes"), fmt::format("{} links in all; fewer than {} are supported",
                                                     links, std::uint64_t{1} << 32));
  data.routes = node_routes(data.node, {});
  return data;
}

}  // namespace sim
