// Node templates from what machines say of themselves: NCCL's topology XML (NCCL_TOPO_DUMP_FILE, or
// the static files that clouds ship for NCCL_TOPO_FILE) and the text of `nvidia-smi topo -m`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/topology/node_template.hpp"

namespace sim {

// What such files leave out, and how rates follow from what they say.
struct ImportDefaults {
  Generation generation = Generation::hopper;  // NVLink rate per link, NCCL's table
  int nvlinks = 0;            // links of each GPU to an NVSwitch where the file names none; 0: none
  Duration nvlink_latency{};  // of one link
  Bandwidth nic{};            // of a NIC without speed
  Duration nic_latency{};
  int pcie_generation = 4;  // nvidia-smi tells no PCIe speed
  Duration pcie_latency{};
  Bandwidth socket_bandwidth{};  // between CPUs; zero: NCCL's value for the CPU, if it is named
};

struct ImportedNode {
  NodeTemplate node;  // without the port to the network
  std::vector<Link> nics;
  std::string cpu_vendor;          // "intel", "amd", "arm", or empty when the file does not say
  std::vector<std::string> notes;  // what was assumed, one sentence each
};

// Both throw InputError with line and column in `name`.
ImportedNode import_nccl_xml(std::string_view text, const std::string& name,
                             const ImportDefaults& defaults);
ImportedNode import_nvidia_smi_topo(std::string_view text, const std::string& name,
                                    const ImportDefaults& defaults);
// By content: a file whose first character is '<' is XML. Reads at most 16 MiB.
ImportedNode import_node(const std::string& path, const ImportDefaults& defaults);

}  // namespace sim
