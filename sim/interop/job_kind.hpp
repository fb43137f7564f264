// The kind of a file: which framework's job it is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/interop/job_file.hpp"

namespace sim {

// job_kind_of() a file goes by its name and content; nothing: it is no job of a framework that is
// known. `text` may be the begin of the file.
std::optional<JobKind> job_kind_of(const std::string& path, std::string_view text);

}  // namespace sim
