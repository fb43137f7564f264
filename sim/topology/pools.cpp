#include "sim/topology/pools.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/input_error.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/file_kind.hpp"
#include "sim/topology/fabric_reader.hpp"
#include "sim/topology/node_builders.hpp"

namespace sim {
namespace {

using Pool = Cluster::Data::Pool;

std::vector<Link> nics_of(const Pool& pool) {
  std::vector<Link> nics;
  for (const PartLink& link : pool.node.links)
    if (link.link.kind == LinkKind::nic && pool.node.parts[link.from].kind == PartKind::nic)
      nics.push_back(link.link);
  return nics;
}

double total(std::span<const Link> nics) {
  double sum = 0;
  for (const Link& nic : nics)
    sum += nic.capacity.in_bytes_per_second();
  return sum;
}

// The pool, as the file that it names describes its nodes.
std::optional<Pool> read_pool(const ObjectReader& entry, const std::string& path,
                              const ClusterFiles& files, Cluster::Data& data) {
  const std::string reference = entry.text("cluster");
  const int nodes = as_int(entry.integer("nodes", {.min = 1, .max = most_nodes}));
  if (reference.empty() || nodes < 1) return std::nullopt;
  const std::string file = referenced_file(path, reference, "topologies");
  const Document document = files.cluster(file);
  refuse_other_kinds(document, FileKind::cluster);
  if (document.root_has("pools"))
    throw InputError(
        entry.where("cluster"),
        fmt::format("{} has pools itself; allowed: a cluster of nodes of one kind", reference));
  Cluster::Data one = read_cluster(document, nodes, files);
  Pool pool = std::move(one.pools.front());
  pool.first_node = data.nodes;
  data.nodes += nodes;
  for (std::string& source : one.sources)
    data.sources.push_back(one.name + ": " + std::move(source));
  data.node_notes.insert(data.node_notes.end(), one.node_notes.begin(), one.node_notes.end());
  return pool;
}

// Messages between the makers' GPUs need a library that both have: NCCL and RCCL are none.
enum class Library : std::uint8_t { nccl, rccl, messages, messages_of_kernels };

// messages_of_kernels: the thread that runs kernels moves the messages of a host, too.
Library library_of(const Device& device) {
  if (device.generation == Generation::cpu)
    return device.communication_share ? Library::messages_of_kernels : Library::messages;
  return is_cdna(device.generation) ? Library::rccl : Library::nccl;
}

void check_pools(const ObjectReader& top, const std::vector<Pool>& pools,
                 const FabricSpec& fabric) {
  const Pool& first = pools.front();
  for (const Pool& pool : pools) {
    if (library_of(pool.device) != library_of(first.device))
      top.problem("pools", fmt::format("{} and {} have no library of collectives in common; "
                                       "allowed: GPUs of one maker, or hosts alone",
                                       first.device.name, pool.device.name));
    if (pool.node.nics.empty())
      top.problem("pools", fmt::format("the nodes of {} have no NICs", pool.name));
    const bool by_rail = fabric.kind == FabricKind::rail_optimised;
    if (by_rail && pool.node.nics.size() != first.node.nics.size())
      top.problem(
          "fabric",
          fmt::format("the nodes of {} have {} NICs and those of {} have {}, so there are no "
                      "rails for all; allowed: flat, fat_tree, dragonfly, torus, sites",
                      first.name, first.node.nics.size(), pool.name, pool.node.nics.size()));
  }
}

template <class T>
void weaken(T& figure, const T& other) {
  figure = std::min(figure, other);
}

void join_networks(NetworkTraits& joint, const NetworkTraits& other) {
  joint.nvls = joint.nvls && other.nvls;
  joint.sharp = joint.sharp && other.sharp;
  joint.network_overhead = std::max(joint.network_overhead, other.network_overhead);
  joint.simple_overhead = std::max(joint.simple_overhead, other.simple_overhead);
  if (joint.most_ll != other.most_ll || joint.most_ll128 != other.most_ll128)
    joint.most_ll = joint.most_ll128 = std::nullopt;
  joint.nvls_tree = joint.nvls_tree && other.nvls_tree;
  joint.merged_nics = joint.merged_nics && other.merged_nics;
  weaken(joint.nccl, other.nccl);
  weaken(joint.network_efficiency, other.network_efficiency);
  weaken(joint.nics_per_node, other.nics_per_node);
  weaken(joint.nic_rate, other.nic_rate);
}

void join_hosts(HostTraits& joint, const HostTraits& other) {
  weaken(joint.memory, other.memory);
  weaken(joint.bandwidth, other.bandwidth);
  weaken(joint.disk_read, other.disk_read);
  weaken(joint.disk_write, other.disk_write);
  weaken(joint.disk, other.disk);
  if (joint.source != other.source) joint.source += "; " + other.source;
}

// Collectives across pools see the oldest generation, as NCCL's tuning does (minCompCap of
// src/graph/tuning.cc).
void join_devices(Device& joint, const Device& other) {
  const std::string names =
      joint.name == other.name ? joint.name : joint.name + " and " + other.name;
  const Bytes memory = std::min(joint.memory, other.memory);
  const Bytes reserved = std::max(joint.reserved, other.reserved);
  if (other.generation < joint.generation) joint = other;
  joint.name = names;
  joint.memory = memory;
  joint.reserved = reserved;
}

}  // namespace

Pool joint_pool(std::span<const Pool> pools) {
  Pool joint;
  joint.name = pools.front().name;
  joint.device = pools.front().device;
  joint.trays = pools.front().trays;
  joint.network = pools.front().network;
  joint.host = pools.front().host;
  joint.not_validated = pools.front().not_validated;
  for (const Pool& pool : pools.subspan(1)) {
    joint.name += " and " + pool.name;
    join_devices(joint.device, pool.device);
    weaken(joint.trays, pool.trays);
    join_networks(joint.network, pool.network);
    join_hosts(joint.host, pool.host);
    if (joint.not_validated.empty()) joint.not_validated = pool.not_validated;
  }
  return joint;
}

Cluster::Data read_pools(const Document& document, std::optional<int> nodes,
                         const ClusterFiles& files) {
  const ObjectReader top = document.root_object();
  Cluster::Data data;
  data.file = document.name();
  data.name = top.text("name");
  data.nodes = 0;
  data.pools.clear();
  for (const ValueReader& entry : top.list("pools"))
    if (std::optional<Pool> pool = read_pool(entry.object(), data.file, files, data))
      data.pools.push_back(std::move(*pool));
  if (data.pools.size() < 2) top.problem("pools", "pools has fewer than two; allowed: 2 or more");
  if (data.nodes > most_nodes)
    top.problem("pools", fmt::format("{} nodes in all; allowed: 1 to {}", data.nodes, most_nodes));
  std::vector<Link> nics;
  for (const Pool& pool : data.pools)
    if (std::vector<Link> own = nics_of(pool); total(own) > total(nics)) nics = std::move(own);
  const FabricSpec fabric = read_fabric(top.object("fabric"), nics);
  if (fabric.kind == FabricKind::none) top.problem("fabric", "pools need a fabric to join them");
  if (top.has("transport")) data.transport = read_transport(top.object("transport"));
  if (!data.pools.empty()) check_pools(top, data.pools, fabric);
  for (const ValueReader& line : top.list("sources"))
    data.sources.push_back(line.text());
  document.finish();
  if (nodes && *nodes != data.nodes)
    throw InputError(
        top.where("pools"),
        fmt::format("nodes is {}, but the pools have {} nodes together; allowed: other "
                    "numbers in the pools",
                    *nodes, data.nodes));
  data.fabric = build_fabric(fabric, data.nodes, nics);
  data.joint = joint_pool(data.pools);
  return data;
}

}  // namespace sim
