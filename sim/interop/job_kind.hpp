// Which framework's job a file is.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/interop/job_file.hpp"

namespace sim {

// By its name and content; nothing: it is no job of a framework that is known. `text` may be the
// begin of the file.
std::optional<JobKind> job_kind_of(const std::string& path, std::string_view text);

}  // namespace sim
