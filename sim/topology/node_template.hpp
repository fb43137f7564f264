// One node: its parts (GPUs, NVSwitch, PCIe switches, CPU sockets, NICs, the port to the network)
// and the directed links between them. All nodes of a cluster are copies of one template.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/words.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

enum class PartKind : std::uint8_t { gpu, nvswitch, pcie_switch, cpu, nic, uplink, network };
constexpr auto words_of(PartKind) {
  return std::array{Word{PartKind::gpu, "gpu"},          Word{PartKind::nvswitch, "nvswitch"},
                    Word{PartKind::pcie_switch, "pcie"}, Word{PartKind::cpu, "cpu"},
                    Word{PartKind::nic, "nic"},          Word{PartKind::uplink, "uplink"},
                    Word{PartKind::network, "network"}};
}

struct Part {
  PartKind kind = PartKind::gpu;
  std::string name;  // "gpu 2", "nvswitch", "pcie 1", "cpu 0", "nic 3", "network"
};

struct PartLink {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Link link;
  int bundled = 1;  // equal parallel links that this one stands for
};

class NodeTemplate {
 public:
  std::vector<Part> parts;
  std::vector<PartLink> links;
  std::vector<std::uint32_t> gpus;  // part of each GPU of the node
  std::vector<std::uint32_t> nics;  // part of each NIC

  std::uint32_t add_part(PartKind kind, std::string name);
  std::uint32_t add_gpu();  // named by its number
  std::uint32_t add_nic();
  // Both directions.
  void connect(std::uint32_t a, std::uint32_t b, Link link, int bundled = 1);
};

// Paths of one kind for all pairs of a table, as hops whose link is an index in the template.
class PathTable {
 public:
  void add(std::span<const Hop> path) {
    hops_.insert(hops_.end(), path.begin(), path.end());
    begin_.push_back(static_cast<std::uint32_t>(hops_.size()));
  }
  std::span<const Hop> operator[](std::size_t i) const {
    return std::span{hops_}.subspan(begin_[i], begin_[i + 1] - begin_[i]);
  }

 private:
  std::vector<Hop> hops_;
  std::vector<std::uint32_t> begin_{0};
};

// All routes within a node, searched once. A path that does not exist is empty.
struct NodeRoutes {
  PathTable gpu_to_gpu;                 // [from * GPUs + to]
  std::vector<PathKind> kind;           // of gpu_to_gpu; same_device where there is no path
  PathTable gpu_to_network;             // [gpu * NICs + nic], through that NIC and its port
  PathTable network_to_gpu;             // [gpu * NICs + nic]
  std::vector<std::vector<int>> near;   // of each GPU: its nearest NICs that work, all equally near
  std::vector<std::vector<int>> order;  // of each GPU: all NICs it reaches, nearest first
  std::vector<int> nic_gpu;             // of each NIC: the GPU that PXN relays through, -1 if none
};

// `dead` marks links that must not be used; empty: none.
NodeRoutes node_routes(const NodeTemplate& node, const std::vector<bool>& dead);

// The rate at which each of the first GPUs can copy to the nearest socket while all of these do:
// that of the slowest. Zero where one has no path but over other GPUs.
Bandwidth host_copy_rate(const NodeTemplate& node, int gpus);

// NCCL's usable rates. PCIe: src/graph/topo.h and xml.cc, width * speed / 80 with speed
// 15 * 2^(generation - 1): 12, 24, 48 GB/s for 16 lanes of generations 3, 4, 5.
Bandwidth nccl_pcie_bandwidth(int generation, int lanes);
// NVLink, per link and direction: 20 (Volta, Ampere, Ada), 20.6 (Hopper), 40.1 GB/s (Blackwell). On
// AMD Instinct an xGMI link, by RCCL: 36 GB/s of gfx90a, 48 of gfx942 and of gfx950
// (ROCm/rocm-systems at 03a89144, projects/rccl/src/graph/topo.h).
Bandwidth nccl_nvlink_bandwidth(Generation generation);

}  // namespace sim
