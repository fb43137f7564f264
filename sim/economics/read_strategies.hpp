// The keys that say what a run does against failures: spares, copies in memory, fewer replicas,
// checks for silent corruption.
#pragma once

#include <optional>

#include "sim/economics/budget_reader.hpp"

namespace sim::budget_reading {

// REQUIRES: the keys of restarts are read.
void read_strategies(Reader& reader, const Scenario& scenario, Budget& budget);

// host_copy() is the rate at which one GPU can copy to its host: its slowest PCIe link.
std::optional<Bandwidth> host_copy(const Cluster& cluster);

// network_of() is what the NICs of a node carry.
Bandwidth network_of(const Cluster& cluster);

}  // namespace sim::budget_reading
