// The idle time of a pipeline schedule in closed form.
#pragma once

#include <string>

#include "sim/layout/layout.hpp"

namespace sim {

// Share of the step that is pipeline bubble for equal stages and free transfers, and its formula.
struct ClosedForm {
  double share = 0;
  std::string formula;
};
ClosedForm bubble_closed_form(const Layout& layout);

}  // namespace sim
