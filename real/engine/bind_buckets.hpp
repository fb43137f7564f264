// Where a rank's parameters lie and which of them it owns. Room-internal: bind() calls it.
#pragma once

#include "real/engine/bound_program.hpp"

namespace real {

// Fills BoundProgram::buckets. REQUIRES: groups and coordinates are bound.
void bind_buckets(BoundProgram& bound, const sim::ArenaLayout& arena);

}  // namespace real
