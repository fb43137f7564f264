// When groups of ranks that train apart meet (Layout::local_steps), and plans of a few steps with
// and without a meeting.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/plan/plan.hpp"

namespace sim {

// The fragment of the model whose meeting begins, and the one whose meeting ends, in a step counted
// from 0. Without overlap both are at the end of the step; with it a meeting begins at the start of
// a step and ends behind the optimizer of the step outer_overlap - 1 later.
std::optional<int> meeting_that_begins(const Layout& layout, std::int64_t step);
std::optional<int> meeting_that_ends(const Layout& layout, std::int64_t step);

// Whether an operator of the program runs in a step: all do but those of other meetings.
bool runs_in_step(const Program& program, OpId op, std::optional<int> begins,
                  std::optional<int> ends);

// Steps that one meeting reaches over: 1, or outer_overlap.
int steps_of_meeting(const Layout& layout);
// The plan of so many steps; the meeting of a fragment, if any, begins in the first and ends in the
// last.
// REQUIRES: plan.layout.trains_apart().
Plan plan_of_steps(const Plan& plan, int steps, std::optional<int> fragment);

}  // namespace sim
