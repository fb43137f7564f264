#include "sim/plan/plan.hpp"
namespace sim {
std::vector<LayoutProblem> layout_problems(const Layout&, const Model&) {
  return {};
}
}  // namespace sim
