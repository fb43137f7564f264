// Functions of Python files that make a configuration: a subset of Python, evaluated. Nothing but
// values is made: no file is written, no program runs, and what is not read is not known.
//
// The root of what a function makes:
//   cfg.section.key = VALUE    that path, as it is in the end
//   a call of what is not read an object with its name as "_target_", arguments as "_0", "_1", by
//   name
//   "_base"                    what the configuration begins from and is not read
//   "_calls"                   functions that are not read, and are given parts of it
//   "_unread"                  lines that are not read
//   "_unknown"                 by its path, what is set to a value that is not known, or under a
//                              condition that is not known: the line that decides
// Values of other files have the place of the line that brings them in.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/reader.hpp"

namespace sim {

struct PythonRules {
  // A file whose functions stand in the place of all others of their names.
  std::string_view prelude{};
  // Functions that are never followed.
  std::span<const std::string_view> opaque{};
  // Modules that a file imports are read if their names have this word.
  std::string_view modules{};
  // Whether modules are looked for beside the file, or above it.
  bool from_files = false;
};

// EvaluatedPython is what a function made, read as a Document is.
class EvaluatedPython {
 public:
  // Throws InputError: at the places of `text`, which is of the file `name`.
  EvaluatedPython(std::string_view text, std::string name, const std::string& function,
                  const PythonRules& rules);
  EvaluatedPython(EvaluatedPython&&) noexcept;
  ~EvaluatedPython();

  // Sections that a configuration has even where its function sets nothing in them. Before
  // change().
  void add_sections(std::span<const std::string_view> names);
  // Before anything is read; keys begin within the function.
  void change(std::span<const Change> changes);
  ObjectReader root_object() const;
  void finish() const;

 private:
  std::unique_ptr<Tree> tree_;
};

// The public functions that begin a configuration (cfg = ...), in the order of the file.
std::vector<std::string> python_configurations(std::string_view text);

}  // namespace sim
