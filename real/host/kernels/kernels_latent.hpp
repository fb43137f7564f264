// Latent attention's queries, keys and values on a host (real/engine/kernels/latent.hpp).
#pragma once

#include "real/engine/kernels/latent.hpp"

namespace real::host {

const kernels::LatentTable& host_latent();

}  // namespace real::host
