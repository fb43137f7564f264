// Changes that would make a layout fit, each tried by planning again, so that a line is a fact and
// not a rule of thumb.
#pragma once

#include <string>
#include <vector>

#include "sim/framework/framework.hpp"
#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"
#include "sim/topology/cluster.hpp"

namespace sim {

// memory_hints: "recompute: full -> 61.2 GiB, fits". Changes on the same GPUs that the framework
// can run (layout_problems, and what its software has), at most four. Those that suffice come
// first, the ones that cost least time before others. Where none does alone, the first line is of
// several together. REQUIRES: `model` runs as `framework` does (run_with).
std::vector<std::string> memory_hints(const Model& model, FrameworkName framework,
                                      const Layout& layout, const Cluster& cluster);

}  // namespace sim
