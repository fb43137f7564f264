// The plan of a layout that is legal, found sound.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/support/check_plan.hpp"

namespace sim::test {

inline Plan checked_plan(const Model& model, const Layout& layout) {
  const std::vector<LayoutProblem> problems = layout_problems(layout, model);
  INFO((problems.empty() ? std::string{} : problems.front().what));
  REQUIRE(problems.empty());
  Plan plan = make_plan(model, layout);
  check_plan(plan);
  return plan;
}

}  // namespace sim::test
