// Notes on what followed the keys that a user has set, on the standard error.
#pragma once

#include "sim/cli/command.hpp"
#include "sim/scenario/scenario.hpp"

namespace sim {

inline void print_followed(const Scenario& scenario) {
  for (const Followed& followed : scenario.followed)
    print_note(text_of(followed));
}

}  // namespace sim
