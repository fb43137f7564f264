#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "sim/cli/command.hpp"
#include "sim/timeline/complete_file.hpp"

namespace sim {

void add_set_option(CLI::App& command, std::vector<std::string>& overrides, const char* of) {
  command.add_option("--set", overrides, fmt::format("set a key of the scenario{}", of))
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false);
}

void add_key_option(CLI::App& command, std::vector<std::string>& overrides,
                    const KeyOption& option) {
  command
      .add_option_function<std::string>(
          option.option,
          [&overrides, key = std::string{option.key}](const std::string& value) {
            overrides.push_back(key + '=' + value);
          },
          option.help)
      ->option_text(option.form);
}

void add_output_option(CLI::App& command, OutputFormat& format) {
  const std::map<std::string, OutputFormat> words{{"table", OutputFormat::table},
                                                  {"json", OutputFormat::json},
                                                  {"csv", OutputFormat::csv},
                                                  {"md", OutputFormat::md}};
  command
      .add_option_function<std::string>(
          "-o,--output",
          [&format, words](const std::string& word) {
            const auto found = words.find(word);
            if (found == words.end())
              throw CLI::ValidationError{"--output",
                                         fmt::format("'{}' is none of table, json, csv, md", word)};
            format = found->second;
          },
          "form of the result: table, json, csv or md")
      ->option_text("table|json|csv|md");
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
  write_complete_file(path, [&](std::ostream& out) { out << text; });
}

bool color_wanted() {
  const char* refused = std::getenv("NO_COLOR");  // no-color.org: any value but the empty one
  const char* terminal = std::getenv("TERM");
  return !(refused && *refused) && isatty(STDOUT_FILENO) == 1 &&
         !(terminal && std::string_view{terminal} == "dumb");
}

}  // namespace sim
