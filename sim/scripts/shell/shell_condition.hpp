// Conditions of a shell: [ a = b ], [[ -z $A && $B == x* ]], (( A > 2 )).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/scripts/shell/shell_variables.hpp"

namespace sim {

struct ShellTruth {
  std::optional<bool> value;  // absent: not known
  std::string why;            // then: the variable or the command that it hangs on
};

ShellTruth negated(ShellTruth truth);
// The words between [ and ], or between [[ and ]], as they are written.
ShellTruth shell_condition(const std::vector<ShellText>& words, ShellVariables& variables,
                           ShellExpander& expander);

}  // namespace sim
