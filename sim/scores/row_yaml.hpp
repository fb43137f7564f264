// A row of a set as a scenario file, to be read, changed and simulated on its own.
#pragma once

#include <string>

#include "sim/rows/measured.hpp"

namespace sim {

// row_yaml() is for a file in `folder`: as complete as scenario_yaml() makes it, with the source
// and what was measured in its head. Throws NotSimulated or InputError where the row cannot be
// simulated.
std::string row_yaml(const MeasuredSet& set, const MeasuredRow& row, const std::string& folder);

// Whether ROW_ID.yaml is the name of a file, on any system: letters, digits, '-', '_', '.'.
bool names_a_file(const std::string& row_id);

}  // namespace sim
