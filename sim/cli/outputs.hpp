// The files that a command is to write, looked at before it begins.
#pragma once

#include <functional>
#include <string>

#include "sim/cli/command_line.hpp"

namespace sim {

// output_problem says what is wrong with what a command is to write: a name that is empty, a file
// that another of its arguments names as well. Empty: nothing. `given` tells whether an option is
// on the command line.
std::string output_problem(const Command& command,
                           const std::function<bool(const Option& option)>& given);

}  // namespace sim
