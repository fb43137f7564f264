// What the engine does not execute of a mixture of experts.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.hpp"

namespace real {

std::vector<std::string> expert_problems(const sim::Layout& layout, const sim::Model& model);

}  // namespace real
