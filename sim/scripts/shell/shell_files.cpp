#include "sim/scripts/shell/shell_files.hpp"

#include <algorithm>
#include <array>

namespace sim {
namespace {

constexpr std::array<std::string_view, 4> script_endings{".sh", ".bash", ".slurm", ".sbatch"};

// handlers are commands that do something with a file and do not run it.
constexpr std::array<std::string_view, 17> handlers{
    "cat",  "chmod", "chown", "cp",    "mv",  "rm",    "sed",     "echo", "printf",
    "grep", "ls",    "mkdir", "touch", "scp", "rsync", "kubectl", "head"};

std::string base_name(std::string_view path) {
  return std::string{path.substr(path.find_last_of("/\x02") + 1)};
}

bool is_script_name(std::string_view name) {
  return std::ranges::any_of(script_endings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

bool is_shell_program(std::string_view word) {
  const std::string name = base_name(word);
  return name == "bash" || name == "sh" || name == "zsh";
}

void ShellWrittenFiles::write(std::string_view path, const ShellText& text) {
  const std::string name = base_name(path);
  if (!name.empty() && name != "null") files_[name] = {text, false};
}

std::optional<ShellScriptWord> ShellWrittenFiles::started_by(
    const std::vector<ShellText>& words) const {
  const std::string program = base_name(words.front().text);
  if (std::ranges::find(handlers, program) != handlers.end()) return std::nullopt;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = base_name(words[i].text);
    const bool given = i > 0 && is_script_name(name) &&
                       (is_shell_program(words[i - 1].text) || program == "sbatch");
    if (given || files_.contains(name)) return ShellScriptWord{i, name};
  }
  return std::nullopt;
}

const ShellText* ShellWrittenFiles::run(const std::string& name) {
  const auto found = files_.find(name);
  if (found == files_.end()) return nullptr;
  found->second.ran = true;
  return &found->second.text;
}

std::vector<ShellText> ShellWrittenFiles::take_rest() {
  std::vector<ShellText> rest;
  for (auto& [name, file] : files_) {
    if (!file.ran && is_script_name(name)) rest.push_back(file.text);
    file.ran = true;
  }
  return rest;
}

}  // namespace sim
