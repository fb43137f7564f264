// Mixtures of experts by the scores of their routers: choice, copies of tokens and their sums,
// order by expert, activation of what came.
#pragma once

#include "real/engine/kernels/routed.hpp"

namespace real::host {

const kernels::RoutedTable& host_routed();

}  // namespace real::host
