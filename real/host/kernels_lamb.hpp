// LAMB on the host (real/engine/lamb.hpp).
#pragma once

#include "real/engine/lamb.hpp"

namespace real::host {

const kernels::LambTable& host_lamb();

}  // namespace real::host
