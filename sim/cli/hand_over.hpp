// Scenarios handed to other programs: what `export` and `search --emit` share.
#pragma once

#include <optional>
#include <string>

#include "sim/cli/command.hpp"
#include "sim/interop/handover.hpp"

namespace sim {

void add_target_option(CLI::App& command, const std::string& name, std::optional<Target>& target,
                       const std::string& what);

// Writes `scenario` to `path` (empty: the standard output) as `target` has it, once that has been
// read back; what the target cannot say is noted on stderr. DeepSpeed's flags go to `path`.args.
void hand_over(const Scenario& scenario, Target target, const std::string& path);

}  // namespace sim
