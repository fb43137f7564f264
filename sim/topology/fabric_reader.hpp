// The `fabric` of a cluster file.
#pragma once

#include <span>

#include "sim/config/reader.hpp"
#include "sim/topology/fabric_builders.hpp"

namespace sim {

// `nics`: those of a node. Records problems.
FabricSpec read_fabric(const ObjectReader& reader, std::span<const Link> nics);

}  // namespace sim
