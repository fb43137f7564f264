// The order in which the nodes of a rank are issued.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/chakra/nodes.hpp"

namespace sim {

struct EtOrder {
  std::vector<std::uint32_t> nodes;  // indices into EtFile::nodes
  // By node: the indices of those that it depends on.
  std::vector<std::vector<std::uint32_t>> dependencies;
  std::size_t missing = 0;  // dependencies on nodes that the file does not have
};

// order_of gives an order in which every node follows those that it depends on; of those that may
// be next, the one that began first, and of those the least id. Throws InputError: an id stands
// twice, or nodes depend on each other in a circle.
EtOrder order_of(const EtFile& file);

}  // namespace sim
