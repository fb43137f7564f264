// The `fabric` and the `transport` of a cluster file.
#pragma once

#include <span>

#include "sim/config/reader.hpp"
#include "sim/topology/fabric_builders.hpp"
#include "sim/topology/transport.hpp"

namespace sim {

// `nics`: those of a node. Records problems.
FabricSpec read_fabric(const ObjectReader& reader, std::span<const Link> nics);
Transport read_transport(const ObjectReader& reader);

}  // namespace sim
