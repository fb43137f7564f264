// One trace, without a look at those of other ranks.
#pragma once

#include <string_view>

#include "sim/config/byte_source.hpp"
#include "sim/trace/traced_run.hpp"

namespace sim {

// read_trace reads JSON as read_run does, of one source. Throws InputError.
TracedRun read_trace(ByteSource& source);

// Whether a text begins as a record of ours (`--record`); as a database of SQLite, as nsys exports.
bool is_record(std::string_view head);
bool is_sqlite(std::string_view head);

}  // namespace sim
