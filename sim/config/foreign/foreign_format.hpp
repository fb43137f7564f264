// Files of other programs that Stepcast does not read, or reads with another command: which one a
// text is, by words that only files of that program have.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

// A setting of another program, and the key of a scenario or a model file that means the same.
struct SameKey {
  std::string_view theirs, ours;
};

enum class ForeignUse : std::uint8_t {
  job,          // starts a training
  any_job,      // the same, of a program that its words do not tell: what import reads comes first
  measurement,  // a log, a trace
  machine,      // a topology of a node or a fabric
  other,        // weights, settings of a run
};

// ForeignFormat: one row of the table. Words are compared as foreign_format.cpp splits a text: a
// dash counts as an underscore, "word:" is a key of YAML or JSON, "word=" is assigned, "word." is
// the begin of a dotted name, "--word" a flag, and "~text" any text as it stands there.
struct ForeignFormat {
  std::string_view name;                    // "a config of GPT-NeoX"
  std::string_view instead;                 // what to give to which command
  std::vector<std::string_view> all = {};   // each occurs
  std::vector<std::string_view> some = {};  // `least` of them occur
  std::size_t least = 0;
  ForeignUse use = ForeignUse::job;
  std::vector<SameKey> keys = {};
  // Commands that read it, as "calibrate --from-kineto": each word is among the arguments.
  std::vector<std::string_view> readers = {};
};

// The rows by subject; the first that matches counts.
std::span<const ForeignFormat> foreign_jobs();      // foreign_jobs.cpp
std::span<const ForeignFormat> foreign_launches();  // foreign_launches.cpp
std::span<const ForeignFormat> foreign_files();     // foreign_files.cpp: what is no job

// The format that a text surely has; nullptr: none. The first MiB of a file is enough.
// `launches`: also as a job of a program that is not known.
const ForeignFormat* foreign_format_of(std::string_view text, bool launches = false);

// foreign_text() says what the file is and what to give instead, with the keys of a scenario that
// its own settings are: several lines, each but the first indented.
std::string foreign_text(const ForeignFormat& format, std::string_view file, std::string_view text);

// Whether a command with these arguments reads such files.
bool reads_format(const ForeignFormat& format, std::span<const std::string> arguments);

// The first MiB of a file, unpacked if it is gzip; empty if it cannot be read.
std::string head_of_file(const std::string& path);

}  // namespace sim
