// Mixtures of experts by the scores of their routers on a host (real/engine/kernels/routed.hpp).
#pragma once

#include "real/engine/kernels/routed.hpp"

namespace real::host {

// Functions of the same types as those of real::kernels.
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define STEPCAST_KERNEL(name) decltype(kernels::name) name;
STEPCAST_ROUTED_KERNELS(STEPCAST_KERNEL)
#undef STEPCAST_KERNEL

const kernels::RoutedTable& host_routed();

}  // namespace real::host
