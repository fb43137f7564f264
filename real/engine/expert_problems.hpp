// Mixtures of experts that the engine does not execute.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.hpp"

namespace real {

// `by_scores`: routers choose so; else evenly (routing.hpp).
std::vector<std::string> expert_problems(const sim::Layout& layout, const sim::Model& model,
                                         bool by_scores);

}  // namespace real
