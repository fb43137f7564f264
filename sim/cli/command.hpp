// What the commands of `stepcast` share. One file per command; each adds itself to the application.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/config/data_files.hpp"
#include "sim/config/data_folder.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): the name that CLI11 has given it
class App;
}

namespace sim {

// Exit codes, as the README documents them.
enum class ExitCode : int {
  done = 0,
  failed = 1,
  usage = 2,
  invalid_input = 3,
  does_not_fit = 4,
  bound_exceeded = 5,
  interrupted = 130,
};

enum class OutputFormat { table, json, csv, md };

// The command line, or the way the program was started, makes no sense.
class WrongUse : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the chosen command shall do, once the command line has been read.
using ChosenCommand = std::function<ExitCode()>;

void add_simulate(CLI::App& app, ChosenCommand& action);
void add_memory(CLI::App& app, ChosenCommand& action);
void add_search(CLI::App& app, ChosenCommand& action);
void add_budget(CLI::App& app, ChosenCommand& action);
void add_topo(CLI::App& app, ChosenCommand& action);
void add_models(CLI::App& app, ChosenCommand& action);
void add_merge(CLI::App& app, ChosenCommand& action);
void add_run(CLI::App& app, ChosenCommand& action);
void add_tokens(CLI::App& app, ChosenCommand& action);
void add_validate(CLI::App& app, ChosenCommand& action);
void add_validate_real(CLI::App& validate, ChosenCommand& action);  // its command `real`
void add_import(CLI::App& app, ChosenCommand& action);
void add_job_imports(CLI::App& import, ChosenCommand& action);  // its commands for training jobs
void add_export(CLI::App& app, ChosenCommand& action);
void add_compare(CLI::App& app, ChosenCommand& action);
void add_sweep(CLI::App& app, ChosenCommand& action);
void add_sensitivity(CLI::App& app, ChosenCommand& action);
void add_scaling(CLI::App& app, ChosenCommand& action);
// What `stepcast calibrate` was asked for, besides its sources. Names may be empty.
struct CalibrationTargets {
  std::vector<std::string> scenarios;
  std::string base_device, base_cluster;  // names or files
  std::string device_file, cluster_file;  // to write
  // Of a measurement of this machine:
  std::string suite;  // its scenarios, backend and ranks
  std::string backend = "host";
  std::string folder;    // for device.yaml and cluster.yaml
  std::string gpu;       // in the driver's words, instead of this machine's
  bool nominal = false;  // nothing is measured: the figures of the bases
  int ranks = 0;         // 0: those of the widest scenario
  int ranks_per_gpu = 0;
  double seconds = 60;  // about what it may take
};
// Measures this machine. Absent in builds without the real engine: then files are the only source.
using MeasureMachine = std::function<ExitCode(const CalibrationTargets&)>;
ExitCode measure_here(const CalibrationTargets& targets);
void add_calibrate(CLI::App& app, ChosenCommand& action, const MeasureMachine& measure = {});
void add_doctor(CLI::App& app, ChosenCommand& action);
void add_completion(CLI::App& app, ChosenCommand& action);

// Adds -o/--output.
void add_output_option(CLI::App& command, OutputFormat& format);

// Adds --set KEY=VALUE, as often as wanted; `of` ends its help.
void add_set_option(CLI::App& command, std::vector<std::string>& overrides, const char* of);

// An option that stands for --set `key`=VALUE. Add it behind --set, which begins the list anew.
struct KeyOption {
  const char* option;
  const char* key;
  const char* form;  // of the value, in the help
  const char* help;
};
void add_key_option(CLI::App& command, std::vector<std::string>& overrides,
                    const KeyOption& option);

// The text of `result` in one format, of four functions of it.
template <class Result, class Table, class Json, class Csv, class Markdown>
std::string in_format(OutputFormat format, const Result& result, Table table, Json json, Csv csv,
                      Markdown markdown) {
  switch (format) {
    case OutputFormat::table:
      break;
    case OutputFormat::json:
      return json(result);
    case OutputFormat::csv:
      return csv(result);
    case OutputFormat::md:
      return markdown(result);
  }
  return table(result);
}

// Results go to stdout, notes to stderr. Colour only on a terminal, and not with NO_COLOR.
void print_result(const std::string& text);
void print_note(const std::string& text);
bool color_wanted();
void write_text_file(const std::string& path, const std::string& text);  // complete, or not at all

}  // namespace sim
