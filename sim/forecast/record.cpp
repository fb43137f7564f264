#include "sim/forecast/record.hpp"

#include <fmt/format.h>

#include "sim/forecast/forecast.hpp"

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

Record simulated_record(const Scenario& scenario, bool every_rank, const Control& control) {
  const Forecast made = forecast(scenario, {.every_rank = every_rank}, control);
  return make_record(*made.plan, made.timeline, origin_of(scenario));
}

}  // namespace sim
