// LAMB on the host (real/engine/kernels/lamb.hpp).
#pragma once

#include "real/engine/kernels/lamb.hpp"

namespace real::host {

const kernels::LambTable& host_lamb();

}  // namespace real::host
