// Functions of Python files that make a configuration: a subset of Python, evaluated. Nothing but
// values is made: no file is written, no program runs, and what is not read is not known.
//
// The document of a function has its configuration under the name of the function:
//   cfg.section.key = VALUE    that path, as it is in the end
//   a call of what is not read an object with its name as "_target_", arguments as "_0", "_1", by
//   name
//   "_base"                    what the configuration begins from and is not read
//   "_calls"                   functions that are not read, and are given parts of it
//   "_unread"                  lines that are not read, and conditions that are not known: these
//   are
//                              taken to hold
// Values of other files have the place of the line that brings them in.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

struct PythonRules {
  // A file whose functions stand in the place of all others of their names.
  std::string_view prelude{};
  // Functions that are never followed.
  std::span<const std::string_view> opaque{};
  // Of the modules that a file imports, those are read whose names have this word.
  std::string_view modules{};
  // Whether modules are looked for beside the file, or above it.
  bool from_files = false;
};

// The public functions that begin a configuration (cfg = ...), in the order of the file.
std::vector<std::string> python_configurations(std::string_view text);

}  // namespace sim
