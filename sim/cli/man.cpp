// stepcast man: manual pages, made from the very commands and options that exist.
#include <fmt/format.h>

#include <memory>

#include "sim/cli/command.hpp"

namespace sim {
namespace {

struct ManRequest {
  std::vector<std::string> command;
  std::string folder;
};

// Text for troff: no line may begin with a control character, and a backslash is one.
std::string troff(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begins = c == '\n';
  }
  return out;
}

std::string option_line(const Option& option) {
  std::string names;
  for (const char c : option.name)
    names += c == ',' ? std::string{", "} : std::string(1, c);
  std::string line = "\\fB" + troff(names) + "\\fR";
  const bool is_flag = std::holds_alternative<bool*>(option.into);
  if (option.name.starts_with("-") && !is_flag)
    line += " \\fI" + troff(option.form.empty() ? "VALUE" : option.form) + "\\fR";
  return line;
}

std::string synopsis(const Command& command, const std::string& path) {
  std::string line = "\\fB" + troff(path) + "\\fR";
  for (const Option& option : command.options)
    if (!option.name.starts_with("-"))
      line += option.required ? " \\fI" + troff(option.name) + "\\fR"
                              : " [\\fI" + troff(option.name) + "\\fR]";
  if (!command.options.empty()) line += " [\\fIOPTIONS\\fR]";
  if (!command.commands.empty()) line += " \\fICOMMAND\\fR";
  return line;
}

std::string options_part(const Command& command) {
  std::string text;
  for (const Option& option : command.options)
    if (!option.hidden) text += ".TP\n" + option_line(option) + "\n" + troff(option.help) + "\n";
  return text.empty() ? text : ".SH OPTIONS\n" + text;
}

std::string hyphened(std::string path) {
  for (char& c : path)
    if (c == ' ') c = '-';
  return path;
}

std::string commands_part(const Command& command, const std::string& path) {
  std::string text;
  for (const Command& one : command.commands)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}; see \\fB{}\\fR(1)\n", troff(one.name),
                        troff(one.help), troff(hyphened(path + ' ' + one.name)));
  return text.empty() ? text : ".SH COMMANDS\n" + text;
}

constexpr const char* exit_part =
    ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\nfailed at run time\n.TP\n2\nwrong usage\n.TP\n3\n"
    "invalid input\n.TP\n4\nthe layout, or every layout of a search, does not fit in memory\n.TP\n"
    "5\na bound that the user set is exceeded\n.TP\n130\ninterrupted\n";

std::string page(const Command& command, const std::string& path, const std::string& footer) {
  std::string text = fmt::format(
      ".TH \"{0}\" 1 \"\" \"Stepcast {1}\" \"Stepcast\"\n.SH NAME\n{2} \\- {3}\n.SH "
      "SYNOPSIS\n{4}\n",
      hyphened(path), STEPCAST_VERSION, troff(hyphened(path)), troff(command.help),
      synopsis(command, path));
  text += commands_part(command, path) + options_part(command) + exit_part;
  if (!footer.empty())
    text += ".SH EXAMPLES\n.nf\n" + troff(footer.substr(footer.starts_with("Example: ") ? 9 : 0)) +
            "\n.fi\n";
  return text;
}

void write_pages(const Command& command, const std::string& path, const std::string& footer,
                 const std::string& folder) {
  const std::string& own = command.footer.empty() ? footer : command.footer;
  write_text_file(fmt::format("{}/{}.1", folder, hyphened(path)), page(command, path, own));
  for (const Command& one : command.commands)
    write_pages(one, path + ' ' + one.name, own, folder);
}

ExitCode show_page(const std::vector<std::string>& words) {
  const Command program = stepcast_program();
  const Command* command = &program;
  std::string path = program.name, footer = program.footer;
  for (const std::string& word : words) {
    const auto of = std::ranges::find(command->commands, word, &Command::name);
    if (of == command->commands.end())
      throw WrongUse{fmt::format("there is no command `{} {}`: see `stepcast --help`", path, word)};
    command = &*of;
    path += ' ' + word;
    if (!command->footer.empty()) footer = command->footer;
  }
  print_result(page(*command, path, footer));
  return ExitCode::done;
}

}  // namespace

Command man_command() {
  const auto request = std::make_shared<ManRequest>();
  return {.name = "man",
          .help = "the manual page of a command, for man(1)",
          .options = {{.name = "COMMAND",
                       .into = &request->command,
                       .help = "its words, as in `stepcast man topo show`; default: stepcast"},
                      {.name = "--to",
                       .into = &request->folder,
                       .form = "FOLDER",
                       .help = "write the pages of all commands there instead",
                       .writes = Output::folder,
                       .excludes = {"COMMAND"}}},
          .footer = "Example: stepcast man search | man -l -",
          .run = [request] {
            if (request->folder.empty()) return show_page(request->command);
            const Command program = stepcast_program();
            write_pages(program, program.name, program.footer, request->folder);
            return ExitCode::done;
          }};
}

}  // namespace sim
