// A file of another program, given to a command that reads something else.
#pragma once

#include <string>
#include <vector>

#include "sim/cli/failure.hpp"

namespace sim {

// FileHint says what the file is that a command failed over, and which command reads it.
struct FileHint {
  std::string text;       // empty: the file is what the command reads, or its kind does not show
  bool explains = false;  // the reader's own words add nothing: they are of another format
};
FileHint file_hint(const std::vector<std::string>& arguments, const Failure& failure);

}  // namespace sim
