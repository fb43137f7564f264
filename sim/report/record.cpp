// A simulated step as a record.
#include <fmt/format.h>

#include "sim/report/report.hpp"

namespace sim {

RecordOrigin origin_of(const Scenario& scenario) {
  RecordOrigin origin;
  origin.scenario = scenario.name;
  origin.machine = fmt::format("{} of {}", scenario.cluster.device().name, scenario.cluster.name());
  origin.provenance = {fmt::format("stepcast {}", STEPCAST_VERSION),
                       "device: " + scenario.cluster.device().origin,
                       fmt::format("seed {}", scenario.options.seed)};
  origin.gpus_per_node = scenario.cluster.gpus_per_node();
  return origin;
}

Record simulated_record(Scenario scenario, bool every_rank) {
  if (every_rank) {
    scenario.options.fold = false;
    scenario.options.record_all = true;
  }
  const Plan plan = make_plan(scenario.model, scenario.layout);
  return make_record(plan, simulate(plan, scenario.cluster, scenario.options).timeline,
                     origin_of(scenario));
}

}  // namespace sim
