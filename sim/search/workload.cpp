#include "sim/search/workload.hpp"

#include <fmt/format.h>

#include "sim/base/input_error.hpp"
#include "sim/config/data_files.hpp"
#include "sim/scenario/node_use.hpp"

namespace sim {
namespace {

void check(const Workload& workload) {
  const auto missing = [](const char* option) {
    return InputError{SourcePosition{option, 0, 0},
                      "is needed without a scenario file: give --model, --cluster, --gpus and "
                      "--batch"};
  };
  if (workload.model.empty()) throw missing("--model");
  if (workload.cluster.empty()) throw missing("--cluster");
  if (workload.gpus < 1) throw missing("--gpus");
  if (workload.global_batch < 1) throw missing("--batch");
}

}  // namespace

ScenarioSources workload_sources(const Workload& workload) {
  check(workload);
  const std::string cluster = find_data_file("topologies", workload.cluster);
  std::vector<std::string> assignments{
      "model=" + find_data_file("models", workload.model), "cluster.path=" + cluster,
      fmt::format("cluster.nodes={}", nodes_for(room_of(Cluster::load(cluster)), workload.gpus)),
      fmt::format("cluster.gpus={}", workload.gpus),
      fmt::format("layout.global_batch={}", workload.global_batch)};
  if (workload.sequence_length > 0)
    assignments.push_back(fmt::format("layout.sequence_length={}", workload.sequence_length));
  assignments.insert(assignments.end(), workload.overrides.begin(), workload.overrides.end());
  return ScenarioSources::of_options(assignments);
}

ScenarioSources search_sources(const std::string& scenario, const Workload& workload) {
  return scenario.empty() ? workload_sources(workload)
                          : ScenarioSources{scenario, workload.overrides};
}

std::vector<std::string> arguments_of(const Workload& workload) {
  std::vector<std::string> arguments;
  const auto add = [&](const char* option, const std::string& value) {
    arguments.insert(arguments.end(), {option, value});
  };
  const auto add_count = [&](const char* option, std::int64_t count) {
    if (count > 0) add(option, std::to_string(count));
  };
  if (!workload.model.empty()) add("--model", workload.model);
  if (!workload.cluster.empty()) add("--cluster", workload.cluster);
  add_count("--gpus", workload.gpus);
  add_count("--batch", workload.global_batch);
  add_count("--sequence", workload.sequence_length);
  for (const std::string& text : workload.overrides)
    add("--set", text);
  return arguments;
}

}  // namespace sim
