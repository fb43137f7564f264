// stepcast memory: what every pipeline stage needs, without simulating time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/forecast/forecast.hpp"

namespace sim {
namespace {

struct Request {
  std::string scenario;
  OutputFormat output = OutputFormat::table;
  std::vector<std::string> overrides;
};

ExitCode show_memory(const Request& request) {
  const Scenario scenario = load_scenario(request.scenario, request.overrides);
  print_followed(scenario);
  const Report report = forecast_memory(scenario).report;
  const auto table = [](const Report& shown) {
    return memory_table(shown, {.color = color_wanted()});
  };
  print_result(in_format(request.output, report, table, memory_json, memory_csv, memory_markdown));
  if (report.fits()) return ExitCode::done;
  print_note(does_not_fit_text(report, scenario));
  return ExitCode::does_not_fit;
}

}  // namespace

void add_memory(CLI::App& app, ChosenCommand& action) {
  const auto request = std::make_shared<Request>();
  CLI::App* command = app.add_subcommand("memory", "memory of every pipeline stage by category");
  command->add_option("SCENARIO", request->scenario, "scenario file (YAML)")->required();
  add_output_option(*command, request->output);
  add_set_option(*command, request->overrides, ", e.g. --set layout.recompute=full");
  command->footer("Example: stepcast memory scenarios/llama-3.1-8b-fsdp-8-h100.yaml");
  command->callback([request, &action] { action = [request] { return show_memory(*request); }; });
}

}  // namespace sim
