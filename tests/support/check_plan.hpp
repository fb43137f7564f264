// Rejects plans that a real cluster would hang on, or that compute a wrong result.
#pragma once

#include "sim/plan/plan.hpp"

namespace sim {

// Checks invariants 1-6 of every program (program.hpp), that every group member issues the same
// collectives in the same order, and that every send meets its receive. Throws std::logic_error.
void check_plan(const Plan& plan);

}  // namespace sim
