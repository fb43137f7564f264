// The commands of `stepcast`.
#include "sim/cli/train/engine.hpp"

namespace sim {

Command stepcast_program() {
  return {
      .name = "stepcast",
      .help = "Stepcast forecasts the time and memory of a distributed training step.",
      .commands =
          {simulate_command(),   check_command(),       memory_command(),
           search_command(),     plan_command(),        budget_command(),
           fleet_command(),      topo_command(),        models_command(),
           keys_command(),       sweep_command(),       sensitivity_command(),
           scaling_command(),    variability_command(), allocation_command(),
           choose_command(),     anchor_command(),      merge_command(),
           run_command(),        tokens_command(),      convergence_command(),
           validate_command(),   import_command(),      export_command(),
           compare_command(),    explain_command(),     calibrate_command(machine_measurement()),
           ui_command(),         serve_command(),       doctor_command(),
           completion_command(), man_command()},
      .footer = "Example: stepcast simulate scenarios/llama-3.1-405b-16384-h100.yaml",
      .version = "stepcast " STEPCAST_VERSION};
}

}  // namespace sim
