// Scripts that a script writes itself, `cat > worker.sh <<END`, and starts later.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scripts/shell/shell_text.hpp"

namespace sim {

// A word of a command that names a script which the command runs.
struct ShellScriptWord {
  std::size_t index = 0;
  std::string name;  // without its folder
};

class ShellWrittenFiles {
 public:
  void write(std::string_view path, const ShellText& text);
  // The script among `words`: a file that was written, or one that a shell or sbatch is given;
  // nothing: the command only handles files (chmod, cp), or names none.
  std::optional<ShellScriptWord> started_by(const std::vector<ShellText>& words) const;
  // The text of a file that was written, marked as run; nullptr: nobody wrote it.
  const ShellText* run(const std::string& name);
  // The scripts that nothing has run so far, which are marked as run.
  std::vector<ShellText> take_rest();

 private:
  struct File {
    ShellText text;
    bool ran = false;
  };
  std::map<std::string, File> files_;
};

// bash, /bin/sh and the like.
bool is_shell_program(std::string_view word);

}  // namespace sim
