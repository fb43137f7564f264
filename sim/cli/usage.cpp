#include "sim/cli/usage.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "sim/base/near_names.hpp"

namespace sim {
namespace {

// The command that the user got to: the innermost subcommand that was recognised.
const CLI::App& reached(const CLI::App& app) {
  const CLI::App* at = &app;
  while (true) {
    const std::vector<CLI::App*> chosen = at->get_subcommands();
    if (chosen.empty()) return *at;
    at = chosen.front();
  }
}

std::vector<std::string> names_of(const CLI::App& command, bool options) {
  std::vector<std::string> names;
  if (!options)
    for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(sub->get_name());
  else
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames())
        names.push_back("--" + name);
  return names;
}

// The first argument that the command does not know, of those that look like it should.
std::string unknown_argument(const CLI::App& command, const std::vector<std::string>& arguments) {
  const std::vector<std::string> options = names_of(command, true);
  for (const std::string& argument : arguments) {
    std::string name = argument.substr(0, argument.find('='));
    if (name.starts_with("--") && name.size() > 2 &&
        std::find(options.begin(), options.end(), name) == options.end())
      return name;
  }
  const std::vector<std::string> commands = names_of(command, false);
  if (!commands.empty())
    for (const std::string& argument : arguments)
      if (!argument.starts_with("-") && argument != command.get_name() &&
          std::find(commands.begin(), commands.end(), argument) == commands.end())
        return argument;
  return {};
}

// CLI11's own words, where they are not those of a user.
std::string words_of(const CLI::App& command, const CLI::ParseError& error) {
  std::string own = error.what();
  // "--set: 1 required TEXT missing"
  if (const std::size_t colon = own.find(": 1 required "); colon != std::string::npos)
    return own.substr(0, colon) + " needs a value";
  if (error.get_name() != "RequiredError") return own;
  const std::vector<std::string> commands = names_of(command, false);
  if (commands.empty() || !command.get_subcommands().empty()) return own;
  std::string text = "a command is required:";
  for (const std::string& name : commands)
    text += (name == commands.front() ? " " : ", ") + name;
  return text;
}

// What a user may have meant by an option or a command that there is not.
std::string unknown_text(const CLI::App& command, const std::string& unknown) {
  const bool option = unknown.starts_with("--");
  const std::vector<std::string> names = names_of(command, option);
  const std::vector<std::string_view> candidates{names.begin(), names.end()};
  const std::string choices = names.empty() ? "" : "; " + choices_text(unknown, candidates);
  return fmt::format("unknown {} '{}'{}", option ? "option" : "command", unknown, choices);
}

}  // namespace

std::string usage_error_text(const CLI::App& app, const CLI::ParseError& error,
                             const std::vector<std::string>& arguments) {
  const CLI::App& command = reached(app);
  std::string path = command.get_name();
  for (const CLI::App* up = command.get_parent(); up; up = up->get_parent())
    path.insert(0, up->get_name() + ' ');
  const std::string unknown = unknown_argument(command, arguments);
  std::string text =
      fmt::format("{}: {}\n", path,
                  unknown.empty() ? words_of(command, error) : unknown_text(command, unknown));
  if (unknown.empty() && !command.get_footer().empty()) text += command.get_footer() + '\n';
  return text + fmt::format("Run '{} --help' for what there is.\n", path);
}

}  // namespace sim
