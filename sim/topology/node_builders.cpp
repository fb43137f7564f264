#include "sim/topology/node_builders.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/check.hpp"

namespace sim {
namespace {

std::string numbered(const char* word, int number) {
  return fmt::format("{} {}", word, number);
}

void read_nvlink(const ObjectReader& reader, NodeSpec& spec) {
  if (spec.kind == NodeKind::nvswitch)
    spec.links = as_int(reader.integer("links", {.min = 1, .max = 256}));
  spec.rate = reader.bandwidth("rate");
  spec.usable = reader.bandwidth_or("usable", spec.rate);
  spec.nvlink_latency = reader.duration("latency");
  if (spec.usable > spec.rate)
    reader.problem("usable", "usable is above rate, the data-sheet figure of one link");
  if (spec.kind != NodeKind::nvlink_mesh) return;
  for (const ValueReader& pair : reader.list("pairs")) {
    const std::vector<ValueReader> numbers = pair.list();
    if (numbers.size() != 3) {
      pair.problem("a pair is [GPU, GPU, links]");
      continue;
    }
    const MeshEdge edge{as_int(numbers[0].integer({.min = 0, .max = spec.gpus - 1})),
                        as_int(numbers[1].integer({.min = 0, .max = spec.gpus - 1})),
                        as_int(numbers[2].integer({.min = 1, .max = 256}))};
    if (edge.a == edge.b) pair.problem(fmt::format("GPU {} is paired with itself", edge.a));
    for (const MeshEdge& other : spec.mesh)
      if (std::minmax(other.a, other.b) == std::minmax(edge.a, edge.b))
        pair.problem(fmt::format("GPUs {} and {} are listed twice", edge.a, edge.b));
    spec.mesh.push_back(edge);
  }
}

// One bundle of `links` for every pair.
void read_xgmi(const ObjectReader& reader, NodeSpec& spec) {
  const int links = as_int(reader.integer_or("links", 1, {.min = 1, .max = 256}));
  spec.rate = reader.bandwidth("rate");
  spec.usable = reader.bandwidth_or("usable", spec.rate);
  spec.nvlink_latency = reader.duration("latency");
  if (spec.usable > spec.rate)
    reader.problem("usable", "usable is above rate, the data-sheet figure of one link");
  for (int a = 0; a < spec.gpus; ++a)
    for (int b = a + 1; b < spec.gpus; ++b)
      spec.mesh.push_back({a, b, links});
}

std::vector<int> read_numbers(const ObjectReader& reader, const char* key, int count,
                              std::vector<bool>& taken) {
  std::vector<int> numbers;
  if (!reader.has(key)) return numbers;
  for (const ValueReader& value : reader.list(key)) {
    if (count == 0) {
      value.problem(fmt::format("this node has no {}", key));
      continue;
    }
    const int number = as_int(value.integer({.min = 0, .max = count - 1}));
    const auto index = static_cast<std::size_t>(number);
    if (taken[index]) value.problem(fmt::format("{} {} is placed twice", key, number));
    taken[index] = true;
    numbers.push_back(number);
  }
  return numbers;
}

void read_layout(const ObjectReader& reader, NodeSpec& spec) {
  std::vector<bool> gpus(static_cast<std::size_t>(spec.gpus));
  std::vector<bool> nics(static_cast<std::size_t>(spec.nics));
  for (const ValueReader& value : reader.list("layout")) {
    const ObjectReader group = value.object();
    spec.groups.push_back(
        {as_int(group.integer_or("socket", 0, {.min = 0, .max = spec.sockets - 1})),
         read_numbers(group, "gpus", spec.gpus, gpus),
         read_numbers(group, "nics", spec.nics, nics)});
  }
  spec.pcie_switches = static_cast<int>(spec.groups.size());
  const auto missing = [&](const std::vector<bool>& placed, const char* what) {
    const auto found = std::find(placed.begin(), placed.end(), false);
    if (found != placed.end())
      reader.problem("layout", fmt::format("{} {} is in no group", what, found - placed.begin()));
  };
  missing(gpus, "GPU");
  missing(nics, "NIC");
}

// GPU i of G below switch i * S / G, NIC j of N below j * S / N, switch s at socket s * C / S.
void spread_evenly(NodeSpec& spec) {
  const bool direct = spec.pcie_switches == 0;
  const int groups = direct ? spec.sockets : spec.pcie_switches;
  spec.groups.assign(static_cast<std::size_t>(groups), {});
  for (int g = 0; g < groups; ++g)
    spec.groups[static_cast<std::size_t>(g)].socket = direct ? g : g * spec.sockets / groups;
  for (int i = 0; i < spec.gpus; ++i)
    spec.groups[static_cast<std::size_t>(i * groups / spec.gpus)].gpus.push_back(i);
  for (int i = 0; i < spec.nics; ++i)
    spec.groups[static_cast<std::size_t>(i * groups / spec.nics)].nics.push_back(i);
}

void read_pcie(const ObjectReader& reader, NodeSpec& spec) {
  const int generation = as_int(reader.integer("generation", {.min = 1, .max = 6}));
  const int lanes = as_int(reader.integer_or("lanes", 16, {.min = 1, .max = 16}));
  spec.pcie = reader.bandwidth_or("bandwidth", nccl_pcie_bandwidth(generation, lanes));
  spec.pcie_latency = reader.duration("latency");
  if (reader.has("layout")) {
    read_layout(reader, spec);
    return;
  }
  spec.pcie_switches = as_int(reader.integer("switches", {.min = 0, .max = 64}));
  spread_evenly(spec);
}

struct Tray {
  std::vector<std::uint32_t> gpus, nics;
};

Tray build_tray(NodeTemplate& node, const NodeSpec& spec, int tray) {
  Tray built;
  for (int i = 0; i < spec.gpus; ++i)
    built.gpus.push_back(node.add_gpu());
  for (int i = 0; i < spec.nics; ++i)
    built.nics.push_back(node.add_nic());
  std::vector<std::uint32_t> sockets;
  sockets.reserve(static_cast<std::size_t>(spec.sockets));
  for (int i = 0; i < spec.sockets; ++i)
    sockets.push_back(node.add_part(PartKind::cpu, numbered("cpu", tray * spec.sockets + i)));
  for (std::size_t i = 0; i < sockets.size(); ++i)
    for (std::size_t j = i + 1; j < sockets.size(); ++j)
      node.connect(sockets[i], sockets[j],
                   {LinkKind::socket, spec.socket_bandwidth, spec.socket_latency});
  const Link pcie{LinkKind::pcie, spec.pcie, spec.pcie_latency};
  for (std::size_t g = 0; g < spec.groups.size(); ++g) {
    const HostGroup& group = spec.groups[g];
    std::uint32_t root = sockets[static_cast<std::size_t>(group.socket)];
    if (spec.pcie_switches > 0) {
      const int number = tray * spec.pcie_switches + static_cast<int>(g);
      const std::uint32_t bridge = node.add_part(PartKind::pcie_switch, numbered("pcie", number));
      node.connect(bridge, root, pcie);
      root = bridge;
    }
    Link host = pcie;
    if (spec.c2c > Bandwidth{}) host.capacity = spec.c2c;
    for (const int gpu : group.gpus)
      node.connect(built.gpus[static_cast<std::size_t>(gpu)], root, host);
    for (const int nic : group.nics)
      node.connect(built.nics[static_cast<std::size_t>(nic)], root, pcie);
  }
  return built;
}

// Reads the figures that the imported file leaves out.
void read_imported(const ObjectReader& reader, NodeSpec& spec) {
  spec.file = reader.text("file");
  ImportDefaults& defaults = spec.defaults;
  const ObjectReader nvlink = reader.object("nvlink");
  defaults.nvlinks = as_int(nvlink.integer_or("links", 0, {.min = 0, .max = 256}));
  defaults.nvlink_latency = nvlink.duration("latency");
  defaults.uneven_nvlink = nvlink.boolean_or("uneven", false);
  const ObjectReader pcie = reader.object("pcie");
  if (pcie.has("generation"))
    defaults.pcie_generation = as_int(pcie.integer("generation", {.min = 1, .max = 6}));
  defaults.pcie_latency = pcie.duration("latency");
  if (reader.has("sockets"))
    defaults.socket_bandwidth = reader.object("sockets").bandwidth("bandwidth");
  if (!reader.has("nics")) return;
  const ObjectReader nics = reader.object("nics");
  defaults.nic = nics.bandwidth_or("bandwidth", Bandwidth{});
  defaults.nic_latency = nics.duration("latency");
}

// Every rank reaches the memory over a link of its own: what one core can send or receive.
void read_shared_memory(const ObjectReader& reader, NodeSpec& spec) {
  const ObjectReader memory = reader.object("memory");
  spec.pcie = memory.bandwidth("bandwidth");
  spec.pcie_latency = memory.duration("latency");
  spread_evenly(spec);
}

void read_nics(const ObjectReader& reader, NodeSpec& spec) {
  if (!reader.has("nics")) return;
  const ObjectReader nics = reader.object("nics");
  spec.nics = as_int(nics.integer("count", {.min = 1, .max = 64}));
  spec.nic = nics.bandwidth("bandwidth");
  spec.nic_latency = nics.duration("latency");
}

}  // namespace

NodeSpec read_node(const ObjectReader& reader) {
  NodeSpec spec;
  spec.kind = reader.word<NodeKind>("kind");
  if (spec.kind == NodeKind::imported) {
    read_imported(reader, spec);
    return spec;
  }
  spec.gpus = as_int(reader.integer("gpus", {.min = 1, .max = 256}));
  if (spec.kind == NodeKind::shared_memory) {
    read_nics(reader, spec);
    read_shared_memory(reader, spec);
    return spec;
  }
  if (spec.kind == NodeKind::nvswitch)
    spec.trays = as_int(reader.integer_or("trays", 1, {.min = 1, .max = 256 / spec.gpus}));
  if (spec.kind == NodeKind::xgmi_mesh)
    read_xgmi(reader.object("xgmi"), spec);
  else if (spec.kind != NodeKind::pcie)
    read_nvlink(reader.object("nvlink"), spec);
  const ObjectReader sockets = reader.object("sockets");
  spec.sockets = as_int(sockets.integer("count", {.min = 1, .max = 16}));
  if (spec.sockets > 1) {
    spec.socket_bandwidth = sockets.bandwidth("bandwidth");
    spec.socket_latency = sockets.duration_or("latency", Duration{});
  }
  read_nics(reader, spec);
  if (spec.nics * spec.trays > 1024)
    reader.problem("nics", fmt::format("{} NICs in {} trays; at most 1024 are supported",
                                       spec.nics * spec.trays, spec.trays));
  read_pcie(reader.object("pcie"), spec);
  spec.c2c = reader.bandwidth_or("c2c", Bandwidth{});
  return spec;
}

NodeTemplate build_node(const NodeSpec& spec) {
  SIM_CHECK(spec.kind != NodeKind::imported);
  NodeTemplate node;
  for (int tray = 0; tray < spec.trays; ++tray)
    build_tray(node, spec, tray);
  const LinkKind kind = spec.kind == NodeKind::xgmi_mesh ? LinkKind::xgmi : LinkKind::nvlink;
  const Link one{kind, spec.usable, spec.nvlink_latency};
  if (spec.kind == NodeKind::nvswitch) {
    const std::uint32_t nvswitch = node.add_part(PartKind::nvswitch, "nvswitch");
    Link port = one;
    port.capacity = one.capacity * spec.links;
    for (const std::uint32_t gpu : node.gpus)
      node.connect(gpu, nvswitch, port, spec.links);
  }
  for (const MeshEdge& edge : spec.mesh) {
    Link bundle = one;
    bundle.capacity = one.capacity * edge.links;
    node.connect(node.gpus[static_cast<std::size_t>(edge.a)],
                 node.gpus[static_cast<std::size_t>(edge.b)], bundle, edge.links);
  }
  return node;
}

void attach_network(NodeTemplate& node, std::span<const Link> nics, Bandwidth node_limit,
                    Duration switch_latency) {
  SIM_CHECK(nics.size() == node.nics.size());
  if (nics.empty()) return;
  // With a limit for the whole node, its NICs share one more link: NIC -> uplink -> switch.
  const std::uint32_t uplink =
      node_limit > Bandwidth{} ? node.add_part(PartKind::uplink, "uplink") : 0;
  const std::uint32_t network = node.add_part(PartKind::network, "network");
  const std::uint32_t port = node_limit > Bandwidth{} ? uplink : network;
  for (std::size_t n = 0; n < nics.size(); ++n) {
    Link down = nics[n];
    if (port == network) down.latency += switch_latency;
    node.links.push_back({node.nics[n], port, nics[n], 1});
    node.links.push_back({port, node.nics[n], down, 1});
  }
  if (port == network) return;
  node.links.push_back({uplink, network, {LinkKind::nic, node_limit, Duration{}}, 1});
  node.links.push_back({network, uplink, {LinkKind::nic, node_limit, switch_latency}, 1});
}

}  // namespace sim
