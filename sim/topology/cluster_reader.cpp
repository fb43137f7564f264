// The cluster file: format and a complete example in topologies/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/reader.hpp"
#include "sim/topology/cluster_data.hpp"
#include "sim/topology/device_of_gpu.hpp"
#include "sim/topology/fabric_reader.hpp"
#include "sim/topology/node_builders.hpp"
#include "sim/topology/node_list.hpp"
#include "sim/topology/pools.hpp"

namespace sim {
namespace {

// The names of all nodes, one for each of `nodes`; those beyond a smaller number that is asked for
// stay unused.
std::vector<std::string> read_node_names(const ObjectReader& top, int nodes) {
  if (!top.has("node_names")) return {};
  std::vector<std::string> names;
  try {
    names = expand_node_list(top.text("node_names"));
  } catch (const std::invalid_argument& error) {
    top.problem("node_names", error.what());
    return {};
  }
  const std::set<std::string_view> different(names.begin(), names.end());
  if (names.size() != static_cast<std::size_t>(nodes) || different.size() != names.size())
    top.problem("node_names",
                fmt::format("{} names, {} of them different; allowed: one of its own for each of "
                            "the {} nodes",
                            names.size(), different.size(), nodes));
  return names;
}

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
  traits.nccl = 200 + static_cast<int>(reader.integer_or("nccl_minor", latest_nccl - 200,
                                                         {.min = 4, .max = 99}));
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

void refuse_too_many_links(const ObjectReader& top, const Cluster::Data& data) {
  std::uint64_t links = data.fabric.links.size();
  std::uint64_t most = 0;
  for (const Cluster::Data::Pool& pool : data.pools)
    most = std::max<std::uint64_t>(most, pool.node.links.size());
  links += most * static_cast<unsigned>(data.nodes);
  if (links >= std::uint64_t{1} << 32)
    throw InputError(top.where("nodes"), fmt::format("{} links in all; fewer than {} are supported",
                                                     links, std::uint64_t{1} << 32));
}

}  // namespace

Cluster::Data read_cluster(const Document& document, std::optional<int> nodes,
                           const ClusterFiles& files) {
  const std::string& path = document.name();
  const ObjectReader top = document.root_object();
  if (top.has("pools")) return read_pools(document, nodes, files);
  Cluster::Data data;
  Cluster::Data::Pool& pool = data.pools.front();
  data.file = path;
  data.name = top.text("name");
  // Empty: a problem that finish() reports.
  const std::string device = top.text("device");
  if (!device.empty())
    pool.device = files.device(referenced_file(path, device, "topologies/devices"));
  const int sharing = as_int(top.integer_or("ranks_per_gpu", 1, {.min = 1, .max = 50}));
  if (!device.empty()) pool.device = share_of_gpu(pool.device, sharing);
  data.nodes = as_int(top.integer("nodes", {.min = 1, .max = most_nodes}));
  data.node_names = read_node_names(top, data.nodes);
  if (nodes) data.nodes = *nodes;
  const NodeSpec spec = read_node(top.object("node"));
  ImportedNode node = make_node(spec, path, pool.device, files);
  FabricSpec fabric = read_fabric(top.object("fabric"), node.nics);
  const Bandwidth node_limit = fabric.kind == FabricKind::flat ? top.object("fabric").bandwidth_or(
                                                                     "per_node_limit", Bandwidth{})
                                                               : Bandwidth{};
  pool.network = read_network(top.object("network"));
  if (top.has("transport")) data.transport = read_transport(top.object("transport"));
  if (top.has("host")) pool.host = read_host(top.object("host"));
  if (top.has("measured"))
    for (const ValueReader& curve : top.list("measured"))
      pool.measured.push_back(read_curve(curve.object()));
  for (const ValueReader& line : top.list("sources"))
    data.sources.push_back(line.text());
  pool.not_validated = top.text_or("not_validated", "");
  if (data.nodes > 1 && (fabric.kind == FabricKind::none || node.nics.empty()))
    top.problem("fabric", fmt::format("{} nodes need a fabric and NICs", data.nodes));
  if (fabric.kind != FabricKind::none && node.nics.empty())
    top.problem("fabric", "a fabric needs node.nics");
  document.finish();
  if (nodes && (*nodes < 1 || *nodes > most_nodes))
    throw InputError(top.where("nodes"),
                     fmt::format("nodes is {}; allowed: 1 to {}", *nodes, most_nodes));

  pool.name = data.name;
  pool.nodes = data.nodes;
  pool.node = std::move(node.node);
  pool.trays = node.trays;
  take_nics(node.nics, pool.network);
  take_notes(node, spec.file, data);
  data.fabric = build_fabric(fabric, data.nodes, node.nics);
  attach_network(pool.node, node.nics, node_limit, fabric.switch_latency);
  refuse_too_many_links(top, data);
  pool.routes = node_routes(pool.node, {});
  return data;
}

}  // namespace sim
