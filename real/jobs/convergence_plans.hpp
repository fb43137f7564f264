// The schemes of a suite as scenarios and plans, checked before the first of them is trained.
#pragma once

#include <vector>

#include "sim/base/units.hpp"
#include "sim/convergence/suite.hpp"
#include "sim/scenario/scenario.hpp"

namespace real {

struct SchemePlan {
  sim::Scenario scenario;  // with the steps of the suite and its first seed
  sim::Plan plan;
  sim::Bytes sent{};  // per step and rank (sim/convergence/traffic.hpp)
};

// One for each scheme. Throws InputError as run_convergence() does.
std::vector<SchemePlan> plan_schemes(const sim::ConvergenceSuite& suite);

}  // namespace real
