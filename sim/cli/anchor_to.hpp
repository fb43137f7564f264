// An anchor from a trace, for the next forecast.
#pragma once

#include <string>

#include "sim/explain/waterfall.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {

// write_trace_anchor adds the run to the anchor file, which need not be there: its step, and by how
// much products, other kernels and collectives differ from the forecast. `scenario`: read with
// `overrides`, without an anchor. Throws InputError where the file is of another device or
// framework.
void write_trace_anchor(const std::string& file, Scenario scenario,
                        const std::vector<std::string>& overrides, const Waterfall& waterfall);

}  // namespace sim
