// The matrix of `nvidia-smi topo -m` as it stands in a text. Its legend defines the cells: X self;
// NV# a bonded set of # NVLinks; PIX at most one PCIe bridge; PXB several, without the CPU; PHB a
// PCIe host bridge; NODE between host bridges of one NUMA node; SYS (once SOC) between NUMA nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/topology/import/smi_text.hpp"

namespace sim {

enum class SmiRelation : std::uint8_t { unknown, self, nvlink, pix, pxb, phb, node, sys };

struct SmiCell {
  SmiRelation relation = SmiRelation::unknown;  // unknown: the row is missing
  int links = 0;
  bool operator==(const SmiCell&) const = default;
};

struct SmiMatrix {
  std::vector<SmiToken> devices{};  // GPUs first
  std::size_t gpus = 0;
  std::vector<SmiCell> cells{};  // row by row
  // For each device: NUMA and CPU affinity where they are told.
  std::vector<std::optional<NumberRanges>> numa{}, cpus{};
  bool grace = false;                // GPUs whose memory is a NUMA node
  std::vector<std::string> notes{};  // parts left out, one sentence each

  const SmiCell& cell(std::size_t row, std::size_t column) const {
    return cells[row * devices.size() + column];
  }
};

// The matrix of a text; of several (several hosts), which must agree, the first. Throws InputError.
SmiMatrix read_smi_matrix(std::string_view text, const std::string& name);

}  // namespace sim
