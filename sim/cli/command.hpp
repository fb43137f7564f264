// Parts that the commands of `stepcast` share. One file per command, each with a function that
// gives it.
#pragma once

#include <array>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/calibration/machine_request.hpp"
#include "sim/cli/command_line.hpp"
#include "sim/config/data_files.hpp"
#include "sim/config/data_folder.hpp"

namespace sim {

enum class OutputFormat { table, json, csv, md, html };
constexpr auto words_of(OutputFormat) {
  return std::array{Word{OutputFormat::table, "table"}, Word{OutputFormat::json, "json"},
                    Word{OutputFormat::csv, "csv"}, Word{OutputFormat::md, "md"},
                    Word{OutputFormat::html, "html"}};
}

// The command line, or the way the program was started, makes no sense.
class WrongUse : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

Command stepcast_program();  // with all of the following
Command simulate_command();
Command check_command();
Command memory_command();
Command search_command();
Command plan_command();
Command budget_command();
Command fleet_command();
Command topo_command();
Command models_command();
Command keys_command();
Command merge_command();
Command validate_command();
Command import_command();
std::vector<Command> job_imports();  // its commands for training jobs
Command export_command();
Command compare_command();
Command explain_command();
Command sweep_command();
Command sensitivity_command();
Command scaling_command();
Command choose_command();
Command variability_command();
Command allocation_command();
// Measures this machine. Empty in builds without the engine: then files are the only source.
struct MeasureMachine {
  std::function<Options(MachineRequest& request)> options;
  std::function<ExitCode(const MachineRequest& request)> run;
};
Command calibrate_command(const MeasureMachine& measure = {});
Command anchor_command();
Command ui_command();
Command doctor_command();
Command completion_command();
Command man_command();
Command serve_command();

Option scenario_option(std::string& path);
// -o/--output.
Option output_option(OutputFormat& format);
// --set KEY=VALUE, as often as wanted; `of` ends its help.
Option set_option(std::vector<std::string>& overrides, const char* of);

// An option that stands for --set `key`=VALUE. It comes behind --set, which begins the list anew.
struct KeyOption {
  const char* option;
  const char* key;
  const char* form;  // of the value, in the help
  const char* help;
};
Option key_option(std::vector<std::string>& overrides, const KeyOption& option);
// --anchor FILE, for forecasts that start from measured runs.
Option anchor_option(std::vector<std::string>& overrides);
Option threads_option(int& threads);

// The command that runs, as the user wrote it: "stepcast simulate a.yaml".
void set_command_text(const std::vector<std::string>& arguments);
const std::string& command_text();
// A page to send, of a command's text, Markdown and JSON.
// `picture`: SVG; empty: it has none.
std::string page_of(const std::string& text, const std::string& markdown, const std::string& json,
                    const std::string& picture = {});

// The text of `result` in one format, of functions of it.
template <class Result, class Table, class Json, class Csv, class Markdown, class Page>
std::string in_format(OutputFormat format, const Result& result, Table table, Json json, Csv csv,
                      Markdown markdown, Page page) {
  switch (format) {
    case OutputFormat::table:
      break;
    case OutputFormat::json:
      return json(result);
    case OutputFormat::csv:
      return csv(result);
    case OutputFormat::md:
      return markdown(result);
    case OutputFormat::html:
      return page(result);
  }
  return table(result);
}

// The same of a command without a page of its own.
template <class Result, class Table, class Json, class Csv, class Markdown>
std::string in_format(OutputFormat format, const Result& result, Table table, Json json, Csv csv,
                      Markdown markdown) {
  return in_format(format, result, table, json, csv, markdown, [&](const Result& shown) {
    return page_of(table(shown), markdown(shown), json(shown));
  });
}

// Results go to stdout, notes to stderr. Colour only on a terminal, and not with NO_COLOR.
void print_result(const std::string& text);
void print_note(const std::string& text);
bool color_wanted();
void write_text_file(const std::string& path, const std::string& text);  // complete, or not at all

}  // namespace sim
