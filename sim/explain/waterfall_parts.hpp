// The parts of a waterfall: the difference of two accounts of a step.
#pragma once

#include <vector>

#include "sim/explain/step_account.hpp"
#include "sim/explain/waterfall.hpp"

namespace sim {

// parts_between() has the parts that are not zero, most time first. They sum to the difference of
// all that the accounts hold. `matched_ops`: the operators that the trace has.
std::vector<WaterfallPart> parts_between(const StepAccount& measured, const StepAccount& forecast,
                                         const Program& program,
                                         const std::vector<bool>& matched_ops);

}  // namespace sim
