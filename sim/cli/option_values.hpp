// The values that an option may have, where there is a list of them.
#pragma once

#include <string>
#include <vector>

#include "sim/cli/command_line.hpp"

namespace sim {

// option_values() are the words of an option, or the shipped models or clusters where its form is
// MODEL or CLUSTER. Empty: any text, a number, a file.
std::vector<std::string> option_values(const Option& option);

}  // namespace sim
