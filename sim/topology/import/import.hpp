// Node templates from what machines say of themselves: NCCL's topology XML (NCCL_TOPO_DUMP_FILE, or
// the static files that clouds ship for NCCL_TOPO_FILE) and the text of `nvidia-smi topo -m`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/topology/node_template.hpp"

namespace sim {

// ImportDefaults: figures that such files leave out, and how rates follow from those that they
// state.
struct ImportDefaults {
  Generation generation = Generation::hopper;  // NVLink rate per link, NCCL's table
  int nvlinks = 0;            // links of each GPU to an NVSwitch where the file names none; 0: none
  Duration nvlink_latency{};  // of one link
  Bandwidth nic{};            // of a NIC without speed
  Duration nic_latency{};
  std::optional<int> pcie_generation{};  // nvidia-smi tells no PCIe speed; absent: 4 is assumed
  Duration pcie_latency{};
  Bandwidth socket_bandwidth{};  // between CPUs; zero: NCCL's value for the CPU, if it is named
  // The generation, and the rates of NICs and sockets, are the user's; false: they are examples,
  // and their use is told as assumed.
  bool generation_stated = true;
  bool rates_stated = true;
  // GPUs whose NVLinks are missing or differ are taken as they are, with a warning; false: refused.
  bool uneven_nvlink = false;
};

// Example rates, to look at a file without a cluster file around it: a 400 Gb/s NIC, latencies as
// in the shipped clusters (topologies/README.md). The notes tell which of them are used.
ImportDefaults example_defaults();

struct ImportedNode {
  NodeTemplate node{};  // without the port to the network
  std::vector<Link> nics{};
  std::string cpu_vendor{};          // "intel", "amd", "arm", or empty when the file does not say
  std::vector<std::string> notes{};  // parts assumed or left out, one sentence each
  std::vector<std::string> warnings{};  // differences from a whole machine, one sentence each
  int trays = 1;                        // hosts that share one NVLink domain
};

// Both throw InputError with line and column in `name`. A dump of several hosts (NCCL joins those
// of one NVLink domain) is one node of as many trays; several matrices must agree.
ImportedNode import_nccl_xml(std::string_view text, const std::string& name,
                             const ImportDefaults& defaults);
ImportedNode import_nvidia_smi_topo(std::string_view text, const std::string& name,
                                    const ImportDefaults& defaults);
// By content: a file whose first character is '<' is XML. Reads at most 16 MiB.
ImportedNode import_node(const std::string& path, const ImportDefaults& defaults);

}  // namespace sim
