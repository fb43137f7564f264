#include "sim/forecast/what_if.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/base/parallel.hpp"
#include "sim/engine/simulator.hpp"

namespace sim {
namespace {

using Switch = bool SimulationOptions::*;

// The resources that a step uses. Expert ranks exchange tokens, and the features of an expert.
std::vector<std::pair<FreedResource, Switch>> resources_of(const Report& report) {
  const Layout& layout = report.layout;
  const bool has_experts = std::ranges::any_of(report.collectives, [](const auto& row) {
    return row.group == GroupRole::expert || row.group == GroupRole::expert_tensor;
  });
  std::vector<std::pair<FreedResource, Switch>> resources{
      {FreedResource::compute, &SimulationOptions::free_compute},
      {FreedResource::memory_traffic, &SimulationOptions::free_memory_traffic},
      {FreedResource::host_issue, &SimulationOptions::free_host}};
  if (layout.tensor_parallel > 1)
    resources.emplace_back(FreedResource::tensor_communication, &SimulationOptions::free_tensor);
  if (layout.context_parallel > 1)
    resources.emplace_back(FreedResource::context_communication, &SimulationOptions::free_context);
  if (has_experts)
    resources.emplace_back(FreedResource::expert_communication, &SimulationOptions::free_expert);
  if (layout.data_parallel > 1)
    resources.emplace_back(FreedResource::data_communication, &SimulationOptions::free_data);
  if (layout.pipeline_parallel > 1)
    resources.emplace_back(FreedResource::pipeline_communication,
                           &SimulationOptions::free_pipeline);
  return resources;
}

}  // namespace

void add_what_if(Report& report, const Simulator& simulator, const SimulationOptions& options,
                 const Control& control) {
  const auto resources = resources_of(report);
  SimulationOptions base = options;
  base.record_all = false;
  base.record_spans = false;
  base.fold = true;  // exact, and only the time is asked for
  std::vector<WhatIf> found(resources.size());
  for_each_piece(resources.size(), control, [&](std::size_t i) {
    control.tell("what-ifs", static_cast<double>(i) / static_cast<double>(resources.size()));
    SimulationOptions freed = base;
    freed.*resources[i].second = true;
    const Simulation simulation = simulator.run(freed, control);
    const Duration meetings = report.meetings ? report.meetings->per_step : Duration{};
    found[i] = {resources[i].first, simulation.timeline.end.time_since_epoch() + meetings};
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const WhatIf& a, const WhatIf& b) { return a.step_time < b.step_time; });
  report.what_if.insert(report.what_if.end(), found.begin(), found.end());
}

}  // namespace sim
