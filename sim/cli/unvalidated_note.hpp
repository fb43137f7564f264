// Notes of commands on a machine that no measurement stands behind, where their result has none.
#pragma once

#include <string>
#include <vector>

#include "sim/topology/cluster.hpp"

namespace sim {

// A note, or nothing.
void note_unvalidated(const Cluster& cluster);
// The note on a scenario as it stands, without what a sweep puts on top. Nothing where it cannot be
// read.
void note_unvalidated(const std::string& scenario, const std::vector<std::string>& overrides);

}  // namespace sim
