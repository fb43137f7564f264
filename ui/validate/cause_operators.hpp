// The operators of a cause in an overlay, to walk from one to the next.
#pragma once

#include <string>
#include <vector>

#include "sim/explain/waterfall.hpp"
#include "ui/explain/waterfall_tree.hpp"
#include "ui/validate/overlay.hpp"

namespace ui {

// cause_operators() has those of the rank that the waterfall looks at: item by item, of each first
// what differs most. Of kernels that the forecast does not have those of the run. Empty: none of
// them is shown.
std::vector<OverlayAt> cause_operators(const Overlay& overlay, const sim::Waterfall& waterfall,
                                       const CauseAt& cause);

// The longest kernel or operator of a name on the run's side; nothing: none is shown.
std::optional<OverlayAt> longest_named(const Overlay& overlay, const std::string& kernel);

}  // namespace ui
