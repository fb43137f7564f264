// Key/value heads on several tensor ranks, on a host (real/engine/kernels/shared_heads.hpp).
#pragma once

#include "real/engine/kernels/shared_heads.hpp"

namespace real::host {

const kernels::SharedHeadsTable& host_shared_heads();

}  // namespace real::host
