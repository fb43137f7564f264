#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "sim/base/complete_file.hpp"
#include "sim/cli/command.hpp"
#include "sim/config/input_log.hpp"
#include "sim/page/page.hpp"

namespace sim {
namespace {

std::string text_of_command;  // written once, before a command runs

// As a shell reads it.
std::string quoted_argument(const std::string& argument) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+.,:/@%[]";
  if (!argument.empty() && argument.find_first_not_of(plain) == std::string::npos) return argument;
  std::string text = "'";
  for (const char c : argument)
    text += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return text + "'";
}

}  // namespace

void set_command_text(const std::vector<std::string>& arguments) {
  text_of_command = "stepcast";
  for (const std::string& argument : arguments)
    text_of_command += " " + quoted_argument(argument);
}

const std::string& command_text() {
  return text_of_command;
}

std::string page_of(const std::string& text, const std::string& markdown, const std::string& json,
                    const std::string& picture) {
  return text_page({.text = text,
                    .markdown = markdown,
                    .json = json,
                    .command = text_of_command,
                    .picture = picture});
}

Option scenario_option(std::string& path) {
  return {.name = "SCENARIO", .into = &path, .help = "scenario file (YAML)", .required = true};
}

Option set_option(std::vector<std::string>& overrides, const char* of) {
  return {.name = "--set",
          .into = &overrides,
          .form = "KEY=VALUE",
          .help = fmt::format("set a key of the scenario{}", of),
          .repeated = true};
}

Option key_option(std::vector<std::string>& overrides, const KeyOption& option) {
  const auto set = [&overrides, key = std::string{option.key}](const std::string& value) {
    overrides.push_back(key + '=' + value);
  };
  return {.name = option.option, .into = set, .form = option.form, .help = option.help};
}

Option output_option(OutputFormat& format) {
  return {.name = "-o,--output",
          .into = word_value<OutputFormat>(format),
          .form = "table|json|csv|md|html",
          .help = "form of the result: table, json, csv, md, or html: a page to send"};
}

Option threads_option(int& threads) {
  return {.name = "--threads",
          .into = &threads,
          .form = "N",
          .help = "threads (all cores)",
          .check = CountFrom{1, 4096}};
}

void print_result(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw std::runtime_error("cannot write to the standard output");
}

void print_note(const std::string& text) {
  // In one write: the ranks of a run share the standard error with their launcher.
  const std::string line = text.ends_with('\n') ? text : text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void write_text_file(const std::string& path, const std::string& text) {
  refuse_to_overwrite_input(path);
  write_complete_file(path, [&](std::ostream& out) { out << text; });
}

bool color_wanted() {
  const char* refused = std::getenv("NO_COLOR");  // no-color.org: any value but the empty one
  const char* terminal = std::getenv("TERM");
  return !(refused && *refused) && isatty(STDOUT_FILENO) == 1 &&
         !(terminal && std::string_view{terminal} == "dumb");
}

}  // namespace sim
