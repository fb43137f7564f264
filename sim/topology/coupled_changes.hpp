// Values of a cluster file that say the same thing twice: a change of one is meant for both.
#pragma once

#include <string>
#include <vector>

#include "sim/config/change.hpp"

namespace sim {

// The changes that follow from `changes` of the cluster file at `path`, as "node.nvlink.usable is
// x2": the usable rate of an NVLink or an xGMI from its data-sheet rate, a stated PCIe bandwidth
// from generation and lanes. None where the other value is changed as well, or the file does not
// say it. Values that do not parse have none either: the reader refuses them. Throws InputError
// where the file does not parse.
std::vector<Change> coupled_changes(const std::string& path, const std::vector<Change>& changes);

}  // namespace sim
