// Key/value heads on several tensor ranks, on a host (real/engine/kernels/shared_heads.hpp).
#pragma once

#include "real/engine/kernels/shared_heads.hpp"

namespace real::host {

// Functions of the same types as those of real::kernels.
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define STEPCAST_KERNEL(name) decltype(kernels::name) name;
STEPCAST_SHARED_HEADS_KERNELS(STEPCAST_KERNEL)
#undef STEPCAST_KERNEL

const kernels::SharedHeadsTable& host_shared_heads();

}  // namespace real::host
