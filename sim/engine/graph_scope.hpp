// Which operators a CUDA graph captures, where it does not capture the whole step.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/options/graph_module.hpp"
#include "sim/program/program.hpp"

namespace sim {

// By operator: the graph that replays it, counted from 0 in issue order, or no_graph. A graph is a
// run of captured operators of a layer in one pass of a micro-batch.
inline constexpr std::uint32_t no_graph = UINT32_MAX;
std::vector<std::uint32_t> graphs_of(const Program& program,
                                     const std::vector<GraphModule>& captured);

}  // namespace sim
