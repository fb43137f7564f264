#include "sim/cli/job_hint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "sim/cli/command.hpp"
#include "sim/config/input_log.hpp"
#include "sim/interop/job_kind.hpp"

namespace sim {
namespace {

std::optional<JobKind> kind_of_file(const std::string& path) {
  try {
    return job_kind_of(path, read_input(path));
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

bool is_called(const Command& command, const std::string& name) {
  return command.name == name || std::ranges::find(command.aliases, name) != command.aliases.end();
}

// `stepcast import` with the command for that kind.
bool imports(const std::vector<std::string>& arguments, JobKind kind) {
  const std::vector<Command> commands = job_imports();
  return arguments.front() == "import" &&
         std::ranges::any_of(commands, [&](const Command& command) {
           return command.name == word(kind) && is_called(command, arguments[1]);
         });
}

}  // namespace

std::string job_hint(const std::vector<std::string>& arguments) {
  std::error_code ignored;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& file = arguments[i];
    if (!std::filesystem::is_regular_file(file, ignored)) continue;
    const std::optional<JobKind> kind = kind_of_file(file);
    if (!kind || imports(arguments, *kind)) return {};
    return fmt::format("{} looks like a training job for: stepcast import {} {} --cluster dgx-h100",
                       file, word(*kind), file);
  }
  return {};
}

}  // namespace sim
