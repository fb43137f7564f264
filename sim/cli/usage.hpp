// Mistakes on the command line, with the nearest name that exists.
#pragma once

#include <string>
#include <vector>

#include "sim/cli/command_line.hpp"

namespace sim {

// REQUIRES: the program that was read still lives.
std::string usage_error_text(const UsageError& error, const std::vector<std::string>& arguments);

}  // namespace sim
