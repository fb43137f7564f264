// Whether gradients leave the device as soon as they are reduced, for the host.
#pragma once

#include "sim/layout/layout.hpp"
#include "sim/model/model.hpp"

namespace sim::lowering {

// gradients_leave() holds where parameters lie on the host, and for DeepSpeed's stages 2 and 3 with
// its optimizer there (rules/offload.md).
bool gradients_leave(const Layout& layout, const Execution& runs);

}  // namespace sim::lowering
