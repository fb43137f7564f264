// The parts of the program that need the engine of `real`: the commands that train and measure, and
// what `doctor` says of it. Defined by the files of those commands, or by no_engine.cpp in a build
// without the engine (-DSTEPCAST_ENGINE=OFF, as `make demo` has it).
#pragma once

#include <string>
#include <vector>

#include "sim/cli/command.hpp"

namespace sim {

Command run_command();
Command convergence_command();
Command tokens_command();
Command validate_real_command();       // the command `real` of `validate`
MeasureMachine machine_measurement();  // empty: this build cannot measure

// A line of `doctor`.
struct Finding {
  std::string part;
  std::string state;
  std::string cost;  // what does not work for want of it; empty where nothing is missing
};
std::vector<Finding> engine_findings();

}  // namespace sim
