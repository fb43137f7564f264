// The host's kernels of ranks that train apart (real/engine/kernels/local_steps.hpp).
#pragma once

#include "real/engine/kernels/local_steps.hpp"

namespace real::host {

const kernels::OuterTable& host_local_steps();

}  // namespace real::host
