// Scenarios handed to other programs: what `export` and `search --emit` share.
#pragma once

#include <optional>
#include <string>

#include "sim/cli/command.hpp"
#include "sim/interop/handover.hpp"

namespace sim {

// An option whose value is a framework.
Option target_option(const char* name, std::optional<Target>& target, const char* help);

// Writes `scenario` to `path` (empty: the standard output) as `target` has it, once that has been
// read back; what the target cannot say is noted on stderr. DeepSpeed's flags go to `path`.args.
void hand_over(const Scenario& scenario, Target target, const std::string& path);

}  // namespace sim
