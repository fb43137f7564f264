// Failures, as a message and an exit code.
#pragma once

#include <string>
#include <vector>

#include "sim/cli/command.hpp"

namespace sim {

struct Failure {
  std::string text;  // empty: another process says it
  ExitCode code = ExitCode::failed;
  std::vector<std::string> files = {};  // that the problems of an input lie in
};

// current_failure() is for the exception that is being handled. REQUIRES: it is a std::exception.
Failure current_failure();

}  // namespace sim
