// The words that start one program, and which framework's program it is.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scripts/launch/launch.hpp"

namespace sim {

// A flag's name as Python has it: '_' in place of '-'.
std::string underscored(std::string_view flag);

struct LineFlag {
  std::string name;  // as it is written, without dashes in front
  std::vector<LaunchWord> values;
  SourcePosition where;

  std::string text() const;  // the values, with a blank between; "true" without any
};

// LaunchLine is what stands behind a program's name: "--flag value", "key=value", and other words.
struct LaunchLine {
  std::vector<LineFlag> flags;
  std::vector<LineFlag> overrides;  // "a.b=c", Hydra's "+a.b=c"; one value each
  std::vector<LaunchWord> words;

  const LineFlag* find(std::initializer_list<std::string_view> names) const;  // '-' may be '_'
};

// read_line() reads the words from `begin` to `end`.
LaunchLine read_line(const LaunchedProgram& program, std::size_t begin,
                     std::size_t end = std::string::npos);

// The number of the first word that ends with one of `names`, as a whole name of a file or word;
// nothing: there is none.
std::optional<std::size_t> word_at(const LaunchedProgram& program,
                                   std::initializer_list<std::string_view> names);

// Whether a file is one that starts a job, and no configuration: a shell script by its name or
// first line, a job of Kubernetes.
bool is_launch_file(const std::string& path, std::string_view text);

// A file that the file at `path` names, as a command in its folder, in one above it, or by its last
// name beside it has it; empty: it is in none of them.
std::string file_of_launch(const std::string& path, const std::string& named);

}  // namespace sim
