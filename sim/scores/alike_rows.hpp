// Rows of a set that are runs of one and the same job, as tables have them that list releases of a
// framework or runs that were repeated: one forecast serves them all.
#pragma once

#include <cstddef>
#include <vector>

#include "sim/rows/measured.hpp"
#include "sim/scores/predict.hpp"

namespace sim {

// alike_rows: the rows by number, each once. Rows of a group have one scenario but for its name;
// those of files of their own, and those that no scenario can be made of, are alone.
std::vector<std::vector<std::size_t>> alike_rows(const MeasuredSet& set, Mechanism without);

}  // namespace sim
