// Problems of the layout of a job that was read.
#pragma once

#include "sim/config/reader.hpp"
#include "sim/interop/handover.hpp"

namespace sim {

// Records what layout_problems() has, at `root`.
void report_layout_problems(const ObjectReader& root, const Imported& result);

}  // namespace sim
