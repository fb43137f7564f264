// stepcast memory: what every pipeline stage needs, without simulating time.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/followed_notes.hpp"
#include "sim/cli/slow_note.hpp"
#include "sim/forecast/forecast.hpp"

namespace sim {
namespace {

struct MemoryRequest {
  std::string scenario;
  OutputFormat output = OutputFormat::table;
  std::vector<std::string> overrides;
};

ExitCode show_memory(const MemoryRequest& request) {
  SlowNote slow;
  const Scenario scenario = load_scenario(request.scenario, request.overrides);
  // The other forms have them among their notes.
  if (request.output == OutputFormat::csv || request.output == OutputFormat::md)
    print_followed(scenario);
  const Report report = forecast_memory(scenario, slow.control()).report;
  const auto table = [](const Report& shown) {
    return memory_table(shown, {.color = color_wanted()});
  };
  print_result(in_format(request.output, report, table, memory_json, memory_csv, memory_markdown));
  if (report.fits()) return ExitCode::done;
  print_note(does_not_fit_text(report, scenario));
  return ExitCode::does_not_fit;
}

}  // namespace

Command memory_command() {
  const auto request = std::make_shared<MemoryRequest>();
  return {.name = "memory",
          .help = "memory of every pipeline stage by category",
          .options = {scenario_option(request->scenario), output_option(request->output),
                      set_option(request->overrides, ", e.g. --set layout.recompute=full")},
          .footer = "Example: stepcast memory scenarios/llama-3.1-8b-fsdp-8-h100.yaml",
          .run = [request] { return show_memory(*request); }};
}

}  // namespace sim
