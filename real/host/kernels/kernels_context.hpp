// Attention over context ranks on a host (real/engine/kernels/context.hpp).
#pragma once

#include "real/engine/kernels/context.hpp"

namespace real::host {

// Functions of the same types as those of real::kernels.
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define STEPCAST_KERNEL(name) decltype(kernels::name) name;
STEPCAST_CONTEXT_KERNELS(STEPCAST_KERNEL)
#undef STEPCAST_KERNEL

const kernels::ContextTable& host_context();

}  // namespace real::host
