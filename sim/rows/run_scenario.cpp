#include "sim/rows/run_scenario.hpp"

#include <fmt/format.h>

#include "sim/options/device_spread.hpp"
#include "sim/plan/plan.hpp"
#include "sim/rows/row_keys.hpp"
#include "sim/scenario/write_scenario.hpp"

namespace sim {

ScenarioSources sources_of(const std::vector<std::string>& assignments) {
  try {
    return ScenarioSources::of_options(assignments);
  } catch (const InputError& error) {
    throw NotSimulated(error.problems().front().what);
  }
}

void finish_row(const ScenarioSources& keys) {
  const std::vector<Problem> problems = keys.problems();
  if (!problems.empty()) throw NotSimulated(problems.front().what);
}

namespace {

// Keys of other sections: on top of the row as a scenario, as --set has them.
Scenario with_other_keys(Scenario scenario, const RunCells& cells, const std::string& folder) {
  const std::vector<std::string> keys = other_assignments(cells);
  if (keys.empty()) return scenario;
  try {
    return load_scenario(ScenarioSources::of_text(scenario_yaml(scenario, folder),
                                                  folder + "/" + scenario.name + ".yaml", keys));
  } catch (const InputError& error) {
    throw NotSimulated(error.problems().front().what);
  }
}

}  // namespace

Scenario run_scenario(const RunCells& cells, const std::string& data_folder, KernelForms forms) {
  Model model = run_model(cells);
  const Framework framework = run_framework(cells);
  if (forms == KernelForms::of_framework) run_with(framework, model);
  Layout layout = run_layout(cells);
  // No other framework gathers in 8 bits.
  if (forms == KernelForms::all_fused && layout.zero_stage == 3)
    layout.eight_bit_parameters = false;
  const std::vector<LayoutProblem> problems = layout_problems(layout, model);
  if (!problems.empty()) throw NotSimulated(problems.front().what);
  const RunMachine machine = run_machine(cells);
  const std::string cluster_path = data_folder + "/" + machine.file;
  Cluster cluster = run_cluster(machine, cluster_path, layout);
  model.execution.reads_either_order = cluster.device().reads_either_order();
  if (layout.attention == AttentionKernel::flash_1 && !cluster.device().flash_attention_1)
    layout.attention = AttentionKernel::flash_2;
  if (layout.attention == AttentionKernel::flash_2 && !cluster.device().flash_attention_2)
    layout.attention = AttentionKernel::flash;
  if (!cluster.device().gemm_model(layout.compute_dtype))
    throw NotSimulated(fmt::format("the {} does not compute in {}", cluster.device().name,
                                   word(layout.compute_dtype)));
  SimulationOptions options{.device_spread = published_device_spread};
  options.host_issue = framework.host_issue;
  options.host_calls = framework.host_calls;
  options.host_update = framework.host_update;
  Scenario scenario{.path = {},
                    .name = std::string{cells["row_id"]},
                    .model = std::move(model),
                    .model_path = {},
                    .layout = std::move(layout),
                    .cluster = std::move(cluster),
                    .cluster_path = cluster_path,
                    .changes = machine.changes,
                    .framework = framework,
                    .names_framework = cells.names_framework,
                    .preset = &run_preset(cells),
                    .options = std::move(options),
                    .faults = {},
                    .flops = {},
                    .training = {}};
  return with_other_keys(std::move(scenario), cells, data_folder);
}

}  // namespace sim
