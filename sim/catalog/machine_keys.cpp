// Keys of the cluster's file (topologies/FORMAT.md) that a what-if may change, as
// cluster.change.KEY. "x0.5" as a value is half of what the file says.
#include <limits>

#include "sim/catalog/tables.hpp"
#include "sim/topology/fabric.hpp"
#include "sim/topology/node_builders.hpp"
#include "sim/topology/transport.hpp"

namespace sim::catalog_tables {
namespace {

using enum KeyType;

KeyDefault of_cluster_file() {
  return KeyDefault::follows("the cluster file's");
}

Key count_key(std::string path, IntegerRange range, std::string unit, std::string help) {
  return integer_key(std::move(path), range, std::move(unit), of_cluster_file(), std::move(help));
}
Key speed_key(std::string path, std::string help) {
  return quantity_key(bandwidth, std::move(path), of_cluster_file(), std::move(help));
}
Key time_key(std::string path, std::string help) {
  return quantity_key(duration, std::move(path), of_cluster_file(), std::move(help));
}
Key factor_key(std::string path, RealRange range, std::string help) {
  return number_key(std::move(path), range, "", of_cluster_file(), std::move(help));
}
Key flag_key(std::string path, std::string help) {
  return boolean_key(std::move(path), of_cluster_file(), std::move(help));
}

std::vector<Key> node() {
  return {
      count_key("ranks_per_gpu", {1, 50}, "ranks", "ranks that share a GPU"),
      count_key("nodes", {1, most_nodes}, "nodes", "nodes; cluster.nodes goes before it"),
      word_key<NodeKind>("node.kind", of_cluster_file(), "how the GPUs of a node are joined"),
      count_key("node.gpus", {1, 256}, "GPUs", "GPUs of a node, or of a tray of it"),
      count_key("node.trays", {1, 256}, "trays", "trays that share the NVSwitch"),
      text_key(text, "node.file", of_cluster_file(), "imported node: the topology file"),
      count_key("node.nvlink.links", {1, 256}, "links", "NVLinks of a GPU"),
      speed_key("node.nvlink.rate", "data-sheet rate of one NVLink, per direction"),
      speed_key("node.nvlink.usable", "rate that NCCL gets of one NVLink, per direction"),
      time_key("node.nvlink.latency", "latency of an NVLink"),
      flag_key("node.nvlink.uneven", "imported node: accept GPUs with fewer NVLinks"),
      count_key("node.xgmi.links", {1, 256}, "links", "xGMI links of each pair of GPUs"),
      speed_key("node.xgmi.rate", "data-sheet rate of one xGMI link, per direction"),
      speed_key("node.xgmi.usable", "rate that RCCL gets of one xGMI link, per direction"),
      time_key("node.xgmi.latency", "latency of an xGMI link"),
      count_key("node.pcie.generation", {1, 6}, "", "PCIe generation"),
      count_key("node.pcie.lanes", {1, 16}, "lanes", "PCIe lanes of a GPU or NIC"),
      speed_key("node.pcie.bandwidth", "usable rate of a PCIe link, per direction"),
      time_key("node.pcie.latency", "latency of a PCIe link"),
      count_key("node.pcie.switches", {0, 64}, "switches", "PCIe switches; 0: none"),
      count_key("node.sockets.count", {1, 16}, "sockets", "CPU sockets"),
      speed_key("node.sockets.bandwidth", "rate between two sockets, per direction"),
      time_key("node.sockets.latency", "latency between two sockets"),
      count_key("node.nics.count", {1, 64}, "NICs", "NICs of a node, or of a tray of it"),
      speed_key("node.nics.bandwidth", "line rate of a NIC, per direction"),
      time_key("node.nics.latency", "latency of a NIC"),
      quantity_key(size, "host.memory", of_cluster_file(), "memory of a node's host"),
      speed_key("host.bandwidth", "rate of a host's memory, all sockets"),
      speed_key("host.nvme.read", "rate at which a node reads its NVMe"),
      speed_key("host.nvme.write", "rate at which a node writes its NVMe"),
      quantity_key(size, "host.nvme.capacity", of_cluster_file(), "NVMe of a node"),
      speed_key("node.memory.bandwidth", "shared memory: rate of one rank's link"),
      time_key("node.memory.latency", "shared memory: latency of one rank's link"),
      speed_key("node.c2c", "rate between a GPU and its CPU (NVLink-C2C)"),
  };
}

std::vector<Key> fabric() {
  return {
      word_key<FabricKind>("fabric.kind", of_cluster_file(), "topology of the fabric"),
      time_key("fabric.switch_latency", "latency of a switch"),
      word_key<Routing>("fabric.routing", of_cluster_file(),
                        "spread over all paths, or static ECMP"),
      count_key("fabric.hash_seed", {0, std::numeric_limits<std::int64_t>::max()}, "",
                "static ECMP: seed of the switches' hash"),
      count_key("fabric.hash_flows", {1, most_hash_flows}, "flows",
                "static ECMP: flows between two GPUs that are hashed by themselves"),
      speed_key("fabric.link", "rate of a link between switches, per direction"),
      speed_key("fabric.per_node_limit", "flat: what all NICs of a node carry together"),
      count_key("fabric.levels", {2, 3}, "levels", "levels of switches"),
      factor_key("fabric.oversubscription", {0.125, 1000}, "over-subscription of the leaves"),
      count_key("fabric.radix", {2, 4096}, "ports", "ports of a switch"),
      count_key("fabric.nodes_per_leaf", {1, most_nodes}, "nodes", "nodes of a leaf"),
      count_key("fabric.leaves_per_pod", {1, most_nodes}, "leaves", "3 levels: leaves of a pod"),
      factor_key("fabric.pod_oversubscription", {0.125, 1000},
                 "3 levels: over-subscription of spines"),
      flag_key("fabric.every_switch", "model each spine switch by itself"),
      flag_key("fabric.separate_rails", "rail_optimised: each rail has spines of its own"),
      count_key("fabric.groups", {1, 4096}, "groups", "dragonfly: groups"),
      count_key("fabric.routers_per_group", {1, 256}, "routers", "dragonfly: routers of a group"),
      count_key("fabric.global_links_per_router", {1, 256}, "links",
                "dragonfly: links of a router to other groups"),
      count_key("fabric.nodes_per_router", {1, 1024}, "nodes",
                "dragonfly, torus: nodes of a router"),
      speed_key("fabric.global_link", "dragonfly: rate of a link between groups"),
      time_key("fabric.global_latency", "dragonfly: latency of a link between groups"),
      count_key("fabric.sites", {1, 4096}, "sites", "sites: data centres"),
      speed_key("fabric.bandwidth", "sites: rate of a data centre's link to the others"),
      time_key("fabric.latency", "sites: latency from one data centre to another"),
  };
}

std::vector<Key> network() {
  return {
      text_key(word, "network.cpu_vendor", of_cluster_file(),
               "CPU vendor, which NCCL's tuning asks for", {"intel", "amd", "arm"}),
      flag_key("network.nvls", "NVLink SHARP"),
      flag_key("network.sharp", "SHARP: reduction in the fabric's switches"),
      time_key("network.overhead", "overhead of a network message at each end"),
      time_key("network.simple_overhead", "more of it per hop under NCCL's Simple protocol"),
      flag_key("network.nvls_tree", "NVLink SHARP continues as a tree between nodes"),
      flag_key("network.merged_nics", "NCCL sees the NICs of a GPU as one (EFA)"),
      count_key("network.nccl_minor", {4, 99}, "minor version",
                "x of the NCCL 2.x that the jobs run; default: 30"),
      quantity_key(size, "network.tuner.ll", of_cluster_file(), "largest message of protocol LL"),
      quantity_key(size, "network.tuner.ll128", of_cluster_file(),
                   "largest message of protocol LL128"),
      factor_key("network.efficiency", {0.01, 1}, "payload share of the NICs' line rate"),
  };
}

std::vector<Key> transport() {
  return {
      factor_key("transport.loss", {0, 0.5}, "chance that a NIC's link loses a packet"),
      factor_key("transport.fabric_loss", {0, 0.5},
                 "chance that a link between switches does; default: loss"),
      word_key<LossRecovery>("transport.recovery", of_cluster_file(),
                             "what is sent again: all behind a lost packet, or it alone"),
      quantity_key(size, "transport.mtu", of_cluster_file(), "payload of a packet"),
      time_key("transport.timeout", "until a packet without an answer is sent again"),
      count_key("transport.retries", {0, 7}, "retries", "then the connection fails"),
      quantity_key(size, "transport.window", of_cluster_file(),
                   "most under way from a NIC to one peer; 0: no limit"),
      time_key("transport.round_trip",
               "of a packet and its answer; 0: twice the latency of the route"),
  };
}

}  // namespace

std::vector<Key> machine() {
  std::vector<Key> keys;
  for (std::vector<Key> (*more)() : {node, fabric, network, transport})
    for (Key& key : in_section("cluster.change", more()))
      keys.push_back(std::move(key));
  return keys;
}

}  // namespace sim::catalog_tables
