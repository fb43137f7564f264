// Attention over context ranks on a host (real/engine/kernels/context.hpp).
#pragma once

#include "real/engine/kernels/context.hpp"

namespace real::host {

const kernels::ContextTable& host_context();

}  // namespace real::host
