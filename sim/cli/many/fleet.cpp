// stepcast fleet: several jobs on one fabric, and what each costs the others.
#include "sim/fleet/fleet.hpp"

#include <memory>

#include "sim/cli/command.hpp"
#include "sim/cli/train/job_host.hpp"

namespace sim {
namespace {

struct FleetRequest {
  std::string file;
  OutputFormat output = OutputFormat::table;
};

ExitCode show_fleet(const FleetRequest& request) {
  const Fleet fleet = load_fleet(request.file);
  const FleetForecast forecast = forecast_fleet(fleet, stop_on_signals(false));
  print_result(
      in_format(request.output, forecast, fleet_table, fleet_json, fleet_csv, fleet_markdown));
  return ExitCode::done;
}

}  // namespace

Command fleet_command() {
  const auto request = std::make_shared<FleetRequest>();
  return {.name = "fleet",
          .help = "several jobs on one fabric: what each costs the others",
          .options = {{.name = "FLEET",
                       .into = &request->file,
                       .help = "a fleet file: jobs, each a scenario and its nodes (YAML)",
                       .required = true},
                      output_option(request->output)},
          .footer = "Example: stepcast fleet data/examples/three-jobs.yaml",
          .run = [request] { return show_fleet(*request); }};
}

}  // namespace sim
