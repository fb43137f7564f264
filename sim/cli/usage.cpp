#include "sim/cli/usage.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/near_names.hpp"

namespace sim {
namespace {

std::vector<std::string> names_of(const Command& command, bool options) {
  std::vector<std::string> names;
  if (options)
    for (OptionName& option : option_names(command))
      names.push_back(std::move(option.name));
  else
    for (const Command& one : command.commands) {
      names.push_back(one.name);
      names.insert(names.end(), one.aliases.begin(), one.aliases.end());
    }
  return names;
}

// The first argument that the command does not know, of those that look like it should.
std::string unknown_argument(const Command& command, UsageError::Kind kind,
                             const std::vector<std::string>& arguments) {
  const std::vector<std::string> options = names_of(command, true);
  for (const std::string& argument : arguments) {
    std::string name = argument.substr(0, argument.find('='));
    if (name.starts_with("--") && name.size() > 2 && !among(options, name)) return name;
  }
  const std::vector<std::string> commands = names_of(command, false);
  if (!commands.empty() && kind != UsageError::Kind::unfit)
    for (const std::string& argument : arguments)
      if (!argument.starts_with("-") && argument != command.name && !among(commands, argument))
        return argument;
  return {};
}

// The parser's own words, where they are not those of a user.
std::string words_of(const Command& command, const UsageError& error) {
  std::string own = error.what();
  // "--set: 1 required TEXT missing"
  if (const std::size_t colon = own.find(": 1 required "); colon != std::string::npos)
    return own.substr(0, colon) + " needs a value";
  if (error.kind() != UsageError::Kind::missing || command.commands.empty()) return own;
  std::string text = "a command is required:";
  for (const Command& one : command.commands)
    text += (&one == &command.commands.front() ? " " : ", ") + one.name;
  return text;
}

// unknown_text() suggests what a user may have meant by an option or a command that there is not.
std::string unknown_text(const Command& command, const std::string& unknown) {
  const bool option = unknown.starts_with("--");
  const std::vector<std::string> names = names_of(command, option);
  const std::vector<std::string_view> candidates{names.begin(), names.end()};
  const std::string choices = names.empty() ? "" : "; " + choices_text(unknown, candidates);
  return fmt::format("unknown {} '{}'{}", option ? "option" : "command", unknown, choices);
}

}  // namespace

std::string usage_error_text(const UsageError& error, const std::vector<std::string>& arguments) {
  const Command& command = *error.path().back();
  std::string path;
  for (const Command* one : error.path())
    path += (path.empty() ? "" : " ") + one->name;
  const std::string unknown = unknown_argument(command, error.kind(), arguments);
  std::string text =
      fmt::format("{}: {}\n", path,
                  unknown.empty() ? words_of(command, error) : unknown_text(command, unknown));
  std::string footer;
  for (const Command* one : error.path())
    if (!one->footer.empty()) footer = one->footer;
  if (unknown.empty() && !footer.empty()) text += footer + '\n';
  return text + fmt::format("Run '{} --help' for what there is.\n", path);
}

}  // namespace sim
