// NVIDIA's config_*.sh of MLPerf Training, and which machine their names mean.
#pragma once

#include <string>
#include <string_view>

#include "sim/interop/megatron/megatron_config.hpp"

namespace sim {

// The cluster of a file of that name ("config_DGXB200_64x8x144xtp4pp8cp2_cg.sh"); empty: it names
// none that is known.
std::string cluster_of_mlperf(std::string_view file);

}  // namespace sim
