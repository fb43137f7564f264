// Traces as a timeline: every kernel of a step, of each rank.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/calibration/kineto.hpp"
#include "sim/timeline/traced.hpp"

namespace sim {

// Traces of the PyTorch profiler, one per rank, or such as Stepcast writes (`--trace`), of any
// number of ranks; JSON, also in gzip. `step`: the number of a marked step; by default the last one
// with kernels, and all kernels of a trace that marks none. Throws InputError.
TracedTimeline read_traces(const std::vector<std::string>& paths,
                           std::optional<int> step = std::nullopt);
TracedTimeline parse_traces(const std::vector<KinetoTrace>& traces,
                            std::optional<int> step = std::nullopt);

}  // namespace sim
