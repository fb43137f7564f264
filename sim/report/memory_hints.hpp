// What would make a layout fit: changes of one key, tried by planning again, so that each line is a
// fact and not a rule of thumb.
#pragma once

#include <string>
#include <vector>

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/report/report.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// "recompute: full -> 61.2 GiB, fits", best first; at most four.
std::vector<std::string> memory_hints(const Model& model, const Layout& layout,
                                      const Cluster& cluster);

}  // namespace sim
