// Node templates from their description in a cluster file.
#pragma once

#include <string>
#include <vector>

#include "sim/config/reader.hpp"
#include "sim/topology/import/import.hpp"
#include "sim/topology/node_template.hpp"

namespace sim {

// xgmi_mesh: every pair of GPUs has xGMI links of its own. shared_memory: a host whose cores run a
// rank each and pass messages through its memory.
enum class NodeKind : std::uint8_t {
  nvswitch,
  nvlink_mesh,
  xgmi_mesh,
  pcie,
  imported,
  shared_memory
};
constexpr auto words_of(NodeKind) {
  return std::array{
      Word{NodeKind::nvswitch, "nvswitch"},   Word{NodeKind::nvlink_mesh, "nvlink_mesh"},
      Word{NodeKind::xgmi_mesh, "xgmi_mesh"}, Word{NodeKind::pcie, "pcie"},
      Word{NodeKind::imported, "imported"},   Word{NodeKind::shared_memory, "shared_memory"}};
}

struct MeshEdge {
  int a = 0, b = 0, links = 1;
};

// The GPUs and NICs below one PCIe switch, or at one socket.
struct HostGroup {
  int socket = 0;
  std::vector<int> gpus, nics;
};

struct NodeSpec {
  NodeKind kind = NodeKind::nvswitch;
  int gpus = 8;   // of one tray
  int trays = 1;  // trays that share the NVSwitch: an NVL72 rack has 18
  // NVLink, xGMI: `usable` times `links` is the capacity; `rate` is the data sheet's, for reports.
  int links = 0;  // of a GPU's port to the NVSwitch
  Bandwidth rate{}, usable{};
  Duration nvlink_latency{};
  std::vector<MeshEdge> mesh;
  // PCIe: NCCL's usable rate of the generation, or a stated one.
  Bandwidth pcie{};
  Duration pcie_latency{};
  int pcie_switches = 0;          // of one tray; 0: GPUs and NICs at the sockets
  std::vector<HostGroup> groups;  // one per PCIe switch, or per socket without switches
  Bandwidth c2c{};                // GPU to CPU where that is not PCIe (Grace); zero: PCIe
  int sockets = 1;                // of one tray
  Bandwidth socket_bandwidth{};
  Duration socket_latency{};
  int nics = 0;  // of one tray
  Bandwidth nic{};
  Duration nic_latency{};
  std::string file;  // imported: the file, as the cluster file names it
  ImportDefaults defaults;
};

// A number that the reader has held to a range within int.
inline int as_int(std::int64_t value) {
  return static_cast<int>(value);
}

NodeSpec read_node(const ObjectReader& reader);
NodeTemplate build_node(const NodeSpec& spec);
// The last step, also for imported nodes: the port to the network. `node_limit` is what all NICs
// may carry together (clouds); zero: no limit.
void attach_network(NodeTemplate& node, std::span<const Link> nics, Bandwidth node_limit,
                    Duration switch_latency);

}  // namespace sim
