// One trace, without a look at those of other ranks.
#pragma once

#include "sim/config/byte_source.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

// read_trace reads JSON as read_run does, of one source. Throws InputError.
TracedRun read_trace(ByteSource& source);

}  // namespace sim
