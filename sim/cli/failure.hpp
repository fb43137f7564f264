// What goes wrong, as a message and an exit code.
#pragma once

#include <string>

#include "sim/cli/command.hpp"

namespace sim {

struct Failure {
  std::string text;  // empty: another process says it
  ExitCode code = ExitCode::failed;
};

// Of the exception that is being handled. REQUIRES: it is a std::exception.
Failure current_failure();

}  // namespace sim
