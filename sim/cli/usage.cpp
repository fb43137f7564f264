#include "sim/cli/usage.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "sim/base/input_error.hpp"

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

}  // namespace

std::string usage_error_text(const CLI::App& app, const CLI::ParseError& error,
                             const std::vector<std::string>& arguments) {
  const CLI::App& command = reached(app);
  std::string path = command.get_name();
  for (const CLI::App* up = command.get_parent(); up; up = up->get_parent())
    path.insert(0, up->get_name() + ' ');
  const std::string unknown = unknown_argument(command, arguments);
  std::string text;
  if (unknown.empty()) {
    text = fmt::format("{}: {}\n", path, error.what());
  } else {
    const bool option = unknown.starts_with("--");
    const std::vector<std::string> names = names_of(command, option);
    const std::vector<std::string_view> candidates{names.begin(), names.end()};
    text = fmt::format("{}: unknown {} '{}'", path, option ? "option" : "command", unknown);
    const std::string_view nearest = nearest_name(unknown, candidates);
    text += nearest.empty() ? "\n" : fmt::format("; did you mean '{}'?\n", nearest);
  }
  return text + fmt::format("Run '{} --help' for what there is.\n", path);
}

}  // namespace sim
