// Execution traces in the place of a scenario.
#pragma once

#include <optional>
#include <string>

#include "sim/cli/command.hpp"

namespace sim {

// The folder of "et:FOLDER"; empty: it is no such name.
std::optional<std::string> et_folder(const std::string& scenario);

// simulate_et runs the Chakra execution traces of a folder on a cluster: a file, or a name as `topo
// list` has it, with as many nodes as the ranks need. Throws InputError.
ExitCode simulate_et(const std::string& folder, const std::string& cluster, OutputFormat output);

}  // namespace sim
