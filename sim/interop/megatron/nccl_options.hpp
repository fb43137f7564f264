// Options of NCCL by communicator, a YAML of Megatron-LM's --nccl-communicator-config-path and of
// MLPerf's NCCL_CFG_PATH.
#pragma once

#include <string>

#include "sim/interop/handover.hpp"

namespace sim {

// read_nccl_options() reads what `path` says of thread blocks into result.most_blocks; what is not
// modelled becomes a note about `setting`, and so does a file that is not there. Throws InputError
// for a file that is no such list.
void read_nccl_options(const std::string& path, const std::string& setting, Imported& result);

}  // namespace sim
