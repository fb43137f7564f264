// A shell script that starts a training, read without running anything: its variables, arrays,
// functions, if, case and loops are followed as far as its text goes, and every command that
// starts a program with flags is handed back with the words that it would get.
//
// Commands that set nothing (mkdir) are passed over; `source FILE` and `bash FILE` read that file
// where it is given, or where the script writes it itself (shell_files.hpp). What hangs on
// something that only a running shell knows becomes a mark, in the words that it reaches.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scripts/shell/shell_variables.hpp"

namespace sim {

// A command's words; in front of them those of the launcher that runs its script ("srun bash
// worker.sh").
struct ShellCommand {
  std::uint32_t at = 0;
  std::vector<ShellText> words;
  bool maybe = false;  // whether it runs hangs on what is not known
};

struct ShellOutcome {
  std::vector<ShellCommand> commands;  // in order
  std::vector<ShellText> loose;        // lines that begin with a flag
  // Arrays and strings that hold flags, by name, in order of assignment.
  std::vector<std::pair<std::string, std::vector<ShellText>>> flags;
  std::optional<std::uint32_t> lost;  // flags behind a comment that ended their command
  std::vector<ShellText> not_found;   // files that `source` names and that were not read
};

// The text of a file that a script sources, by the path that it writes; nothing: not to be read.
using ShellFiles = std::function<std::optional<std::string>(std::string_view path)>;

// run_shell_script() puts the words of a sourced file, for messages, at the command that sources
// it. Throws ShellProblem for text that is no script.
ShellOutcome run_shell_script(const ShellText& source, ShellVariables& variables,
                              const ShellFiles& files = {});

// A file that is there before a script runs.
struct ShellFile {
  std::string path;
  ShellText text;
};
// Commands as their words, in order, such as containers are given.
ShellOutcome run_shell_commands(const std::vector<std::vector<ShellText>>& commands,
                                const std::vector<ShellFile>& present, ShellVariables& variables,
                                const ShellFiles& files);

// The fields of a word that begins with "--" and holds blanks, "--fp8-format hybrid", as an
// unquoted expansion splits it; quotes inside group and go.
std::vector<ShellText> split_quoted_flag(const ShellText& word);

}  // namespace sim
