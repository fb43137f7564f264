// Memory traffic and kernel launches of an update by LAMB (sim/plan/rules/lamb.md).
#pragma once

#include <cstdint>

#include "sim/layout/layout.hpp"

namespace sim::lowering {

// Bytes per parameter, with gradients of so many bytes. REQUIRES: layout.optimizer is lamb.
std::int64_t lamb_bytes(const Layout& layout, std::int64_t gradient);
int lamb_launches(const Layout& layout);  // of a tensor

}  // namespace sim::lowering
